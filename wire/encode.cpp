#include <flatbuffers/flatbuffers.h>

#include "wire/codec.hpp"
#include "wire/protocol_generated.h"

namespace convoy::wire {
namespace {

std::uint32_t u32(int value) { return static_cast<std::uint32_t>(value); }

using Builder = flatbuffers::FlatBufferBuilder;
using Layers = std::vector<flatbuffers::Offset<fb::LayerHolder>>;

fb::Pads pads(const Padding& pad) { return {pad.top, pad.left, pad.bottom, pad.right}; }

flatbuffers::Offset<flatbuffers::Vector<const fb::Source*>> encode(Builder& builder, const Sources& from) {
  std::vector<fb::Source> sources;
  for (const Source& each : from) sources.emplace_back(each.stage, u32(each.channels.first), u32(each.channels.count));
  return builder.CreateVectorOfStructs(sources);
}

/// Adds one channel layer to a stage's list.
struct LayerEncoder {
  Builder& builder;

  flatbuffers::Offset<fb::LayerHolder> operator()(const Activation& activation) const {
    const auto kind = static_cast<fb::ActivationKind>(activation.kind);
    const auto layer = fb::CreateActivationLayer(builder, kind, activation.alpha, activation.beta);
    return fb::CreateLayerHolder(builder, fb::ChannelLayer::ActivationLayer, layer.Union());
  }
  flatbuffers::Offset<fb::LayerHolder> operator()(const Pooling& pool) const {
    const fb::Pads pad = pads(pool.pad);
    const auto layer = fb::CreatePoolLayer(builder, static_cast<fb::PoolKind>(pool.kind), pool.kernel_h, pool.kernel_w,
                                           pool.stride_h, pool.stride_w, &pad, pool.dilation_h, pool.dilation_w);
    return fb::CreateLayerHolder(builder, fb::ChannelLayer::PoolLayer, layer.Union());
  }
  flatbuffers::Offset<fb::LayerHolder> operator()(const Dropout& dropout) const {
    const auto layer = fb::CreateDropoutLayer(builder, dropout.rate, dropout.stream, dropout.spatial);
    return fb::CreateLayerHolder(builder, fb::ChannelLayer::DropoutLayer, layer.Union());
  }
  flatbuffers::Offset<fb::LayerHolder> operator()(const Add& add) const {
    const auto layer = fb::CreateAddLayer(builder, encode(builder, add.from));
    return fb::CreateLayerHolder(builder, fb::ChannelLayer::AddLayer, layer.Union());
  }
  flatbuffers::Offset<fb::LayerHolder> operator()(const Multiply& multiply) const {
    const auto layer = fb::CreateMultiplyLayer(builder, encode(builder, multiply.from), multiply.by_points);
    return fb::CreateLayerHolder(builder, fb::ChannelLayer::MultiplyLayer, layer.Union());
  }
  flatbuffers::Offset<fb::LayerHolder> operator()(const BatchNorm& norm) const {
    const auto layer =
        fb::CreateBatchNormLayer(builder, builder.CreateString(norm.name), norm.epsilon, norm.momentum, norm.rate);
    return fb::CreateLayerHolder(builder, fb::ChannelLayer::BatchNormLayer, layer.Union());
  }
};

flatbuffers::Offset<fb::Stage> encode(Builder& builder, const Stage& stage) {
  const auto name = builder.CreateString(stage.name);
  const fb::Pads pad = pads(stage.conv.pad);
  const auto conv = fb::CreateConv(builder, stage.conv.filters, stage.conv.kernel_h, stage.conv.kernel_w,
                                   stage.conv.stride_h, stage.conv.stride_w, &pad, stage.conv.bias, stage.conv.groups,
                                   stage.conv.rate, stage.conv.dilation_h, stage.conv.dilation_w);
  Layers layers;
  for (const ChannelLayer& layer : stage.after) layers.push_back(std::visit(LayerEncoder{builder}, layer));
  const auto after = builder.CreateVector(layers);
  const auto from = encode(builder, stage.from);
  const fb::ResponseNorm norm(stage.norm.size, stage.norm.alpha, stage.norm.beta, stage.norm.k);
  const auto [groups, epsilon, by_position] = stage.group_norm;
  const auto [mode, rows, columns] = stage.resizing;
  const auto group_norm = fb::CreateGroupNorm(builder, groups, epsilon, by_position);
  const fb::ResizedAxis resized_rows(rows.extent, rows.step, rows.start);
  const fb::ResizedAxis resized_columns(columns.extent, columns.step, columns.start);
  const auto resizing =
      fb::CreateResizing(builder, static_cast<fb::ResizingMode>(mode), &resized_rows, &resized_columns);
  return fb::CreateStage(builder, name, stage.channels, stage.height, stage.width, conv, after, u32(stage.moments),
                         static_cast<fb::StageKind>(stage.kind), &norm, from, stage.shuffle, group_norm, resizing);
}

auto encode(Builder& builder, const std::vector<Assignment>& assignments) {
  std::vector<fb::Assignment> all;
  for (const Assignment& each : assignments) {
    all.emplace_back(u32(each.member), u32(each.filters.first), u32(each.filters.count));
  }
  return builder.CreateVectorOfStructs(all);
}

flatbuffers::Offset<fb::Plan> encode(Builder& builder, const Plan& plan) {
  const auto members = builder.CreateVectorOfStrings(plan.members);
  std::vector<flatbuffers::Offset<fb::StagePlan>> stages;
  for (const StagePlan& stage : plan.stages) {
    std::vector<flatbuffers::Offset<fb::Row>> rows;
    for (const Row& row : stage.rows) {
      const auto shards = encode(builder, row.shards);
      rows.push_back(fb::CreateRow(builder, u32(row.samples.first), u32(row.samples.count), shards));
    }
    const auto all_rows = builder.CreateVector(rows);
    const auto owners = encode(builder, stage.owners);
    stages.push_back(fb::CreateStagePlan(builder, all_rows, owners, stage.replicated));
  }
  const std::vector<std::uint32_t> unequal(plan.unequal.begin(), plan.unequal.end());
  const auto all_unequal = builder.CreateVector(unequal);
  return fb::CreatePlan(builder, u32(plan.batch), members, builder.CreateVector(stages),
                        static_cast<fb::Exchange>(plan.exchange), static_cast<fb::NumberType>(plan.wire),
                        u32(plan.micro_batches), plan.relayed, all_unequal, u32(plan.early_sums));
}

/// One overload for each message. An overload returns the tag and the value of the union Body.
struct BodyEncoder {
  using Result = std::pair<fb::Body, flatbuffers::Offset<void>>;
  Builder& builder;

  Result operator()(const Hello& m) const {
    const auto name = builder.CreateString(m.name);
    const auto device = builder.CreateString(m.device);
    const auto capabilities = builder.CreateVectorOfStrings(m.capabilities);
    const auto peer_key = builder.CreateString(m.peer_key);
    return {fb::Body::Hello, fb::CreateHello(builder, m.version, name, device, m.threads, m.memory, m.filter_block,
                                             capabilities, m.peer_port, peer_key, m.memory_factor)
                                 .Union()};
  }
  Result operator()(const Welcome& m) const {
    const auto run = builder.CreateString(m.run);
    return {fb::Body::Welcome, fb::CreateWelcome(builder, m.version, run).Union()};
  }
  Result operator()(const Refused& m) const {
    return {fb::Body::Refused, fb::CreateRefused(builder, builder.CreateString(m.reason)).Union()};
  }
  Result operator()(const Bye& m) const {
    return {fb::Body::Bye, fb::CreateBye(builder, builder.CreateString(m.reason)).Union()};
  }
  Result operator()(const Ping& m) const {
    return {fb::Body::Ping, fb::CreatePing(builder, m.left, m.waiting).Union()};
  }
  Result operator()(const Attach& m) const {
    return {fb::Body::Attach, fb::CreateAttach(builder, builder.CreateString(m.name)).Union()};
  }
  Result operator()(const Calibrate& m) const {
    const auto stage = encode(builder, m.stage);
    return {fb::Body::Calibrate,
            fb::CreateCalibrate(builder, stage, m.filters, m.batch, m.input_gradient, m.repeats).Union()};
  }
  Result operator()(const Calibrated& m) const {
    return {fb::Body::Calibrated,
            fb::CreateCalibrated(builder, m.forward, m.backward_input, m.backward_filters, m.update).Union()};
  }
  Result operator()(const Assign& m) const {
    std::vector<flatbuffers::Offset<fb::Stage>> stages;
    for (const Stage& stage : m.trunk) stages.push_back(encode(builder, stage));
    const auto trunk = builder.CreateVector(stages);
    const auto plan = encode(builder, m.plan);
    const auto token = builder.CreateString(m.token);
    const auto peers = builder.CreateVectorOfStrings(m.peers);
    const auto keys = builder.CreateVectorOfStrings(m.peer_keys);
    const auto clients = builder.CreateVectorOfStrings(m.client_keys);
    std::vector<fb::StateMove> moves;
    for (const StateMove& each : m.moves) {
      moves.emplace_back(each.stage_index, u32(each.filters.first), u32(each.filters.count), u32(each.from),
                         u32(each.to));
    }
    const auto moved = builder.CreateVectorOfStructs(moves);
    return {fb::Body::Assign,
            fb::CreateAssign(builder, trunk, plan, m.node, token, peers, m.keep, keys, moved, clients).Union()};
  }
  Result operator()(const Move&) const { return {fb::Body::Move, fb::CreateMove(builder).Union()}; }
  Result operator()(const Load& m) const {
    std::vector<fb::Content> each;
    for (const Content& content : m.contents) each.emplace_back(content.high, content.low);
    const auto contents = builder.CreateVectorOfStructs(each);
    return {fb::Body::Load, fb::CreateLoad(builder, m.stage_index, u32(m.filters.first), u32(m.filters.count), contents,
                                           static_cast<fb::NumberType>(m.type), m.moments)
                                .Union()};
  }
  Result operator()(const Wanted& m) const {
    const auto blocks = builder.CreateVector(m.blocks);
    return {fb::Body::Wanted, fb::CreateWanted(builder, m.stage_index, blocks).Union()};
  }
  Result operator()(const Step& m) const {
    flatbuffers::Offset<fb::Update> update;
    if (const auto& step = m.work.update) {
      update = fb::CreateUpdate(builder, static_cast<fb::Optimizer>(step->optimizer), step->learning_rate,
                                step->momentum, step->weight_decay, step->beta2, step->epsilon, step->correction1,
                                step->correction2, step->gradient_scale);
    }
    flatbuffers::Offset<fb::Pass> pass;
    if (m.work.pass) {
      std::vector<fb::ChannelScale> scales;
      for (const ChannelScale& each : m.work.scales) scales.emplace_back(each.mean, each.deviation);
      const auto all = builder.CreateVectorOfStructs(scales);
      pass = fb::CreatePass(builder, m.work.pass->training, m.work.pass->seed, m.work.pass->squares, all);
    }
    return {fb::Body::Step, fb::CreateStep(builder, m.number, update, pass).Union()};
  }
  Result operator()(const Squares& m) const { return {fb::Body::Squares, fb::CreateSquares(builder, m.sum).Union()}; }
  Result operator()(const Snapshot& m) const {
    return {fb::Body::Snapshot, fb::CreateSnapshot(builder, m.stage_index, u32(m.filters.first), u32(m.filters.count),
                                                   m.gradients, static_cast<fb::NumberType>(m.type), m.moments)
                                    .Union()};
  }
  Result operator()(const Piece& m) const {
    return {fb::Body::Piece, fb::CreatePiece(builder, m.step, m.task, m.first).Union()};
  }
  Result operator()(const Originals& m) const {
    std::vector<fb::Content> each;
    for (const Content& content : m.contents) each.emplace_back(content.high, content.low);
    const auto contents = builder.CreateVectorOfStructs(each);
    std::vector<fb::ImageView> all;
    for (const ImageView& view : m.views) all.emplace_back(view.down, view.right, view.flip);
    const auto views = builder.CreateVectorOfStructs(all);
    const auto fill = builder.CreateVector(m.fill);
    return {fb::Body::Originals, fb::CreateOriginals(builder, m.step, m.task, contents, views, fill).Union()};
  }
  Result operator()(const Missing& m) const {
    const auto samples = builder.CreateVector(m.samples);
    return {fb::Body::Missing, fb::CreateMissing(builder, m.step, m.task, samples).Union()};
  }
  Result operator()(const Credit& m) const { return {fb::Body::Credit, fb::CreateCredit(builder, m.pieces).Union()}; }
  flatbuffers::Offset<fb::Energy> energy_of(const MachineEnergy& m) const {
    const auto meter = builder.CreateString(m.meter);
    const auto scope = builder.CreateString(m.scope);
    const auto origin = builder.CreateString(m.origin);
    const auto refusal = builder.CreateString(m.refusal);
    return fb::CreateEnergy(builder, meter, scope, origin, m.seconds, m.compute, m.transfer, m.wait, m.error, m.watts,
                            m.idle_watts, m.idle_error, refusal, m.compute_seconds, m.transfer_seconds, m.wait_seconds,
                            m.refresh, static_cast<std::uint32_t>(m.wraps), static_cast<std::uint32_t>(m.gaps),
                            m.gap_seconds);
  }
  Result operator()(const Done& m) const {
    const auto stages = builder.CreateVector(m.stages);
    const auto broken = builder.CreateVector(m.broken);
    const auto energy = m.energy ? energy_of(*m.energy) : flatbuffers::Offset<fb::Energy>();
    return {fb::Body::Done, fb::CreateDone(builder, m.compute, m.transfer, m.wait, stages, broken, energy).Union()};
  }
  Result operator()(const Probed& m) const {
    return {fb::Body::Probed, fb::CreateProbed(builder, m.host.busy_per_byte, m.host.memory).Union()};
  }
  Result operator()(const Probe& m) const { return {fb::Body::Probe, fb::CreateProbe(builder, m.pieces).Union()}; }
  Result operator()(const Unreached& m) const {
    return {fb::Body::Unreached, fb::CreateUnreached(builder, builder.CreateVectorOfStrings(m.peers)).Union()};
  }
  Result operator()(const Assigned& m) const {
    return {fb::Body::Assigned, fb::CreateAssigned(builder, builder.CreateString(m.token)).Union()};
  }
  Result operator()(const Leaving&) const { return {fb::Body::Leaving, fb::CreateLeaving(builder).Union()}; }
  Result operator()(const Failed& m) const {
    return {fb::Body::Failed, fb::CreateFailed(builder, builder.CreateString(m.reason)).Union()};
  }
};

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  Builder builder(256);
  const auto [tag, body] = std::visit(BodyEncoder{builder}, message);
  fb::FinishHeaderBuffer(builder, fb::CreateHeader(builder, tag, body));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

}  // namespace convoy::wire
