#include <flatbuffers/flatbuffers.h>

#include <array>
#include <cmath>

#include "wire/codec.hpp"
#include "wire/protocol_generated.h"

namespace convoy::wire {
namespace {

constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kLongestText = 4096;
constexpr std::uint32_t kMostCapabilities = 64;
constexpr std::size_t kMostLayers = 64;
constexpr std::uint32_t kLargestBatch = 65536;
constexpr std::uint32_t kMostStages = 4096;
constexpr std::uint32_t kMostRepeats = 100;
constexpr std::uint32_t kMostMembers = 1024;
constexpr std::uint32_t kMostFilters = 1U << 24;
constexpr std::uint32_t kMostMoves = 1U << 20U;
constexpr std::uint32_t kMostTasks = 1U << 30;
constexpr std::uint64_t kMostValues = std::uint64_t{1} << 48;
constexpr std::uint32_t kMostProbe = 1024;
constexpr std::size_t kLongestToken = 64;

std::string text(const flatbuffers::String* value, const char* field) {
  if (value == nullptr) return {};
  if (value->size() > kLongestText) fail("the {} has {} bytes; the limit is {}", field, value->size(), kLongestText);
  return value->str();
}

std::vector<std::string> texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* list,
                               std::uint32_t most, const char* field) {
  std::vector<std::string> read;
  if (list == nullptr) return read;
  if (list->size() > most) fail("the message lists {} {}; the limit is {}", list->size(), field, most);
  for (const flatbuffers::String* item : *list) read.push_back(text(item, field));
  return read;
}

template <class T>
T within(T value, T low, T high, const char* field) {
  if (!(value >= low && value <= high)) fail("{} {} is outside {} to {}", field, value, low, high);
  return value;
}

double seconds(double value, const char* field) { return within(value, 0.0, 1e9, field); }

Padding pad_of(const fb::Pads* pad) {
  return pad == nullptr ? Padding{} : Padding{pad->top(), pad->left(), pad->bottom(), pad->right()};
}

Sources sources_of(const flatbuffers::Vector<const fb::Source*>* list) {
  Sources sources;
  if (list == nullptr) return sources;
  if (list->size() > kMostStages) fail("a stage has {} sources; the limit is {}", list->size(), kMostStages);
  for (const fb::Source* each : *list) {
    const auto extent = [](std::uint32_t value) { return static_cast<int>(within(value, 0U, 1U << 20U, "channels")); };
    sources.push_back({each->stage(), {extent(each->first()), extent(each->count())}});
  }
  return sources;
}

ChannelLayer layer_of(const fb::LayerHolder& holder) {
  if (const auto* activation = holder.layer_as_ActivationLayer()) {
    const int kind = within(static_cast<int>(activation->kind()), 0, 3, "activation kind");
    return Activation{static_cast<Activation::Kind>(kind), activation->slope()};
  }
  if (const auto* pool = holder.layer_as_PoolLayer()) {
    const int kind = within(static_cast<int>(pool->kind()), 0, 1, "pooling kind");
    return Pooling{static_cast<PoolKind>(kind), pool->kernel_h(), pool->kernel_w(), pool->stride_h(), pool->stride_w(),
                   pad_of(pool->pad())};
  }
  if (const auto* dropout = holder.layer_as_DropoutLayer()) return Dropout{dropout->rate(), dropout->stream()};
  if (const auto* add = holder.layer_as_AddLayer()) return Add{sources_of(add->from())};
  if (const auto* norm = holder.layer_as_BatchNormLayer())
    return BatchNorm{text(norm->name(), "name of a batch norm"), norm->epsilon(), norm->momentum()};
  fail("a channel layer is of an unknown kind");
}

Stage stage_of(const fb::Stage* table) {
  if (table == nullptr || table->conv() == nullptr) fail("a stage is missing, or has no convolution");
  const fb::Conv& conv = *table->conv();
  Stage stage{.name = text(table->name(), "stage name"),
              .channels = table->channels(),
              .height = table->height(),
              .width = table->width(),
              .conv = {.filters = conv.filters(),
                       .kernel_h = conv.kernel_h(),
                       .kernel_w = conv.kernel_w(),
                       .stride_h = conv.stride_h(),
                       .stride_w = conv.stride_w(),
                       .pad = pad_of(conv.pad()),
                       .bias = conv.bias(),
                       .groups = conv.groups()},
              .after = {},
              .moments = static_cast<int>(within(table->moments(), 0U, 16U, "moments")),
              .kind = static_cast<StageKind>(within(static_cast<int>(table->kind()), 0, 2, "kind of stage")),
              .norm = {},
              .from = sources_of(table->from())};
  if (const fb::ResponseNorm* norm = table->norm()) stage.norm = {norm->size(), norm->alpha(), norm->beta(), norm->k()};
  if (const auto* after = table->after()) {
    if (after->size() > kMostLayers) fail("a stage has {} layers; the limit is {}", after->size(), kMostLayers);
    for (const fb::LayerHolder* layer : *after) stage.after.push_back(layer_of(*layer));
  }
  validate(stage);
  return stage;
}

std::uint32_t batch_of(std::uint32_t batch) { return within(batch, 1U, kLargestBatch, "batch"); }
std::uint32_t stage_index_of(std::uint32_t index) { return within(index, 0U, kMostStages - 1, "stage index"); }

float finite(float value, const char* field) {
  if (!std::isfinite(value)) fail("{} is not finite", field);
  return value;
}

Hello read(const fb::Hello& t) {
  Hello hello{.version = t.version(),
              .name = text(t.name(), "name"),
              .device = text(t.device(), "device"),
              .threads = within(t.threads(), 1U, 65536U, "threads"),
              .memory = t.memory(),
              .filter_block = within(t.filter_block(), 1U, 1024U, "filter block"),
              .capabilities = texts(t.capabilities(), kMostCapabilities, "capabilities"),
              .peer_port = within(t.peer_port(), 0U, 65535U, "peer port"),
              .peer_key = text(t.peer_key(), "peer key")};
  if (hello.name.empty()) fail("the Hello has no name");
  return hello;
}

Calibrate read(const fb::Calibrate& t) {
  const Stage stage = stage_of(t.stage());
  const auto filters = within(t.filters(), 1U, static_cast<std::uint32_t>(stage.conv.filters), "filters");
  return {stage, filters, batch_of(t.batch()), t.input_gradient(), within(t.repeats(), 1U, kMostRepeats, "repeats")};
}

/// Reads the fields that Load and Snapshot share: the stage, the filters whose state is to travel, and the number type.
template <class T, class Table>
T read_state_of(const Table& t) {
  T message{stage_index_of(t.stage_index()),
            {static_cast<int>(within(t.first(), 0U, kMostFilters, "first filter")),
             static_cast<int>(within(t.count(), 1U, kMostFilters, "filter count"))}};
  if constexpr (std::is_same_v<T, Snapshot>) message.gradients = t.gradients();
  message.type = static_cast<NumberType>(within(static_cast<int>(t.type()), 0, 2, "number type of a state"));
  return message;
}

Load read(const fb::Load& t) {
  Load load = read_state_of<Load>(t);
  if (!t.contents() || t.contents()->size() > kMostFilters) fail("the Load has no hashes or over {}", kMostFilters);
  // The verifier looks at where a vector begins, not at where its elements do.
  const bool aligned = reinterpret_cast<std::uintptr_t>(t.contents()->Data()) % alignof(std::uint64_t) == 0;
  if (t.contents()->size() > 0 && !aligned) fail("the message is damaged");
  for (const fb::Content* each : *t.contents()) load.contents.push_back({each->high(), each->low()});
  return load;
}

Wanted read(const fb::Wanted& t) {
  Wanted wanted{stage_index_of(t.stage_index()), {}};
  if (t.blocks() == nullptr || t.blocks()->size() > kMostFilters)
    fail("the Wanted has no blocks, or more than {}", kMostFilters);
  for (const std::uint32_t block : *t.blocks()) {
    if (!wanted.blocks.empty() && block <= wanted.blocks.back())
      fail("block {} follows block {}; blocks must ascend", block, wanted.blocks.back());
    wanted.blocks.push_back(block);
  }
  return wanted;
}

int number(std::uint32_t value, std::uint32_t most, const char* field) {
  return static_cast<int>(within(value, 0U, most, field));
}

std::vector<Assignment> assignments_of(const flatbuffers::Vector<const fb::Assignment*>* list) {
  std::vector<Assignment> assignments;
  if (list == nullptr) return assignments;
  if (list->size() > kMostMembers) fail("a stage has {} shards; the limit is {}", list->size(), kMostMembers);
  for (const fb::Assignment* each : *list) {
    assignments.push_back({.member = number(each->member(), kMostMembers - 1, "member"),
                           .filters = {number(each->first(), kMostFilters, "first filter"),
                                       number(each->count(), kMostFilters, "filter count")}});
  }
  return assignments;
}

/// The rows of a stage have at most as many shards together as there may be members, because none has two.
StagePlan read(const fb::StagePlan& t) {
  StagePlan stage{.rows = {}, .owners = assignments_of(t.owners()), .replicated = t.replicated()};
  if (t.rows() == nullptr) return stage;
  if (t.rows()->size() > kMostMembers) fail("a stage has {} rows; the limit is {}", t.rows()->size(), kMostMembers);
  std::size_t shards = 0;
  for (const fb::Row* row : *t.rows()) {
    stage.rows.push_back({.samples = {number(row->first(), kLargestBatch, "first sample"),
                                      number(row->count(), kLargestBatch, "sample count")},
                          .shards = assignments_of(row->shards())});
    shards += stage.rows.back().shards.size();
    if (shards > kMostMembers) fail("a stage has {} shards; the limit is {}", shards, kMostMembers);
  }
  return stage;
}

Plan read(const fb::Plan& t) {
  Plan plan{.batch = static_cast<int>(batch_of(t.batch())),
            .members = texts(t.members(), kMostMembers, "members"),
            .stages = {},
            .exchange = static_cast<Exchange>(within(static_cast<int>(t.exchange()), 0, 2, "exchange")),
            .wire = static_cast<NumberType>(within(static_cast<int>(t.wire()), 0, 3, "number type")),
            .micro_batches = static_cast<int>(within(t.micro_batches(), 1U, kLargestBatch, "micro-batches")),
            .relayed = t.relayed()};
  if (const auto* unequal = t.unequal()) {
    if (unequal->size() > kMostMembers) fail("{} members are unequal; the limit is {}", unequal->size(), kMostMembers);
    for (const std::uint32_t each : *unequal) plan.unequal.push_back(number(each, kMostMembers - 1, "member"));
  }
  if (t.stages() == nullptr || t.stages()->size() > kMostStages)
    fail("the plan has no stages, or more than {}", kMostStages);
  for (const fb::StagePlan* stage : *t.stages()) plan.stages.push_back(read(*stage));
  return plan;
}

std::string token_of(const flatbuffers::String* from) {
  std::string token = text(from, "token");
  if (token.size() > kLongestToken) fail("the token has {} bytes; the limit is {}", token.size(), kLongestToken);
  return token;
}

StateMove move_of(const fb::StateMove& move, const Assign& assign) {
  const auto last = static_cast<std::uint32_t>(assign.plan.members.size()) - 1;
  if (move.stage_index() >= assign.trunk.size())
    fail("a move names stage {}, but the trunk has {} stages", move.stage_index(), assign.trunk.size());
  const auto filters = static_cast<std::uint32_t>(assign.trunk[move.stage_index()].conv.filters);
  const std::uint32_t first = within(move.first(), 0U, filters - 1, "first filter");
  const std::uint32_t count = within(move.count(), 1U, filters - first, "filters");
  return {.stage_index = move.stage_index(),
          .filters = {static_cast<int>(first), static_cast<int>(count)},
          .from = static_cast<int>(within(move.from(), 0U, last, "node")),
          .to = static_cast<int>(within(move.to(), 0U, last, "node"))};
}

Assign read(const fb::Assign& t) {
  if (t.trunk() == nullptr || t.plan() == nullptr) fail("the Assign has no trunk or no plan");
  if (t.trunk()->size() > kMostStages) fail("the trunk has {} stages; the limit is {}", t.trunk()->size(), kMostStages);
  Assign assign{.trunk = {},
                .plan = read(*t.plan()),
                .node = within(t.node(), 0U, kMostMembers - 1, "node"),
                .token = token_of(t.token()),
                .peers = texts(t.peers(), kMostMembers, "peers"),
                .keep = t.keep(),
                .peer_keys = texts(t.peer_keys(), kMostMembers, "peer keys"),
                .moves = {},
                .client_keys = texts(t.client_keys(), kMostMembers, "client keys")};
  for (const fb::Stage* stage : *t.trunk()) assign.trunk.push_back(stage_of(stage));
  validate(assign.trunk);
  validate(assign.plan, assign.trunk);
  if (assign.node >= assign.plan.members.size())
    fail("the Assign is for node {}, but the plan has {} members", assign.node, assign.plan.members.size());
  if (t.moves() == nullptr) return assign;
  if (t.moves()->size() > kMostMoves) fail("the Assign has {} moves; the limit is {}", t.moves()->size(), kMostMoves);
  for (const fb::StateMove* move : *t.moves()) assign.moves.push_back(move_of(*move, assign));
  return assign;
}

Piece read(const fb::Piece& t) {
  return {.step = t.step(),
          .task = within(t.task(), 0U, kMostTasks, "task"),
          .first = within(t.first(), std::uint64_t{0}, kMostValues, "first value")};
}

MachineEnergy read(const fb::Energy& t) {
  return {.meter = text(t.meter(), "meter"),
          .scope = text(t.scope(), "scope"),
          .origin = text(t.origin(), "origin"),
          .seconds = seconds(t.seconds(), "seconds of energy"),
          .compute = within(t.compute(), 0.0, 1e15, "energy of computing"),
          .transfer = within(t.transfer(), 0.0, 1e15, "energy of transfer"),
          .wait = within(t.wait(), 0.0, 1e15, "energy of waiting"),
          .compute_seconds = seconds(t.compute_seconds(), "seconds of computing"),
          .transfer_seconds = seconds(t.transfer_seconds(), "seconds of transfer"),
          .wait_seconds = seconds(t.wait_seconds(), "seconds of waiting"),
          .error = within(t.error(), 0.0, 1e15, "error of energy"),
          .watts = within(t.watts(), 0.0, 1e15, "power"),
          .idle_watts = within(t.idle_watts(), 0.0, 1e15, "idle power"),
          .idle_error = within(t.idle_error(), 0.0, 1e15, "error of idle power"),
          .refusal = text(t.refusal(), "refusal")};
}

Done read(const fb::Done& t) {
  Done done{seconds(t.compute(), "compute"), seconds(t.transfer(), "transfer"), seconds(t.wait(), "wait"), {}};
  if (t.energy() != nullptr) done.energy = read(*t.energy());
  if (t.broken() != nullptr) {
    if (t.broken()->size() > kMostStages)
      fail("the Done names {} broken stages; the limit is {}", t.broken()->size(), kMostStages);
    for (const std::uint32_t stage : *t.broken()) done.broken.push_back(stage_index_of(stage));
  }
  if (t.stages() == nullptr) return done;
  if (t.stages()->size() > kMostStages)
    fail("the Done has times of {} stages; the limit is {}", t.stages()->size(), kMostStages);
  // The verifier looks at where a vector begins, not at where its elements do.
  const bool aligned = reinterpret_cast<std::uintptr_t>(t.stages()->Data()) % alignof(double) == 0;
  if (t.stages()->size() > 0 && !aligned) fail("the message is damaged");
  for (const double each : *t.stages()) done.stages.push_back(seconds(each, "compute of a stage"));
  return done;
}

UpdateStep read(const fb::Update& t) {
  const int optimizer = within(static_cast<int>(t.optimizer()), 0, 2, "optimizer");
  return {.optimizer = static_cast<Optimizer>(optimizer),
          .learning_rate = finite(t.learning_rate(), "learning rate"),
          .momentum = finite(t.momentum(), "momentum"),
          .weight_decay = finite(t.weight_decay(), "weight decay"),
          .beta2 = finite(t.beta2(), "beta2"),
          .epsilon = finite(t.epsilon(), "epsilon"),
          .correction1 = finite(t.correction1(), "correction1"),
          .correction2 = finite(t.correction2(), "correction2"),
          .gradient_scale = finite(t.gradient_scale(), "gradient scale")};
}

Step read(const fb::Step& t) {
  Step step{.number = t.number(), .work = {}};
  if (step.number == 0) fail("the Step has number 0; steps are numbered from 1");
  if (t.update() != nullptr) step.work.update = read(*t.update());
  if (const fb::Pass* pass = t.pass()) {
    step.work.pass = Pass{.training = pass->training(), .seed = pass->seed(), .squares = pass->squares()};
  }
  if (!step.work.update && !step.work.pass) fail("the Step has neither an update nor a pass");
  if (step.work.update && step.work.pass && !step.work.trains()) fail("the Step has an update before a test");
  return step;
}

Message read(const fb::Header& header) {
  switch (header.body_type()) {
    case fb::Body::Hello: return read(*header.body_as_Hello());
    case fb::Body::Welcome:
      return Welcome{header.body_as_Welcome()->version(), text(header.body_as_Welcome()->run(), "run")};
    case fb::Body::Refused: return Refused{text(header.body_as_Refused()->reason(), "reason")};
    case fb::Body::Bye: return Bye{text(header.body_as_Bye()->reason(), "reason")};
    case fb::Body::Ping: {
      const fb::Ping& t = *header.body_as_Ping();
      return Ping{within(t.left(), 0U, kMostTasks, "tasks left"), t.waiting()};
    }
    case fb::Body::Attach: return Attach{text(header.body_as_Attach()->name(), "name")};
    case fb::Body::Calibrate: return read(*header.body_as_Calibrate());
    case fb::Body::Calibrated: {
      const fb::Calibrated& t = *header.body_as_Calibrated();
      return Calibrated{seconds(t.forward(), "forward"), seconds(t.backward_input(), "backward_input"),
                        seconds(t.backward_filters(), "backward_filters"), seconds(t.update(), "update")};
    }
    case fb::Body::Assign: return read(*header.body_as_Assign());
    case fb::Body::Load: return read(*header.body_as_Load());
    case fb::Body::Wanted: return read(*header.body_as_Wanted());
    case fb::Body::Step: return read(*header.body_as_Step());
    case fb::Body::Snapshot: return read_state_of<Snapshot>(*header.body_as_Snapshot());
    case fb::Body::Piece: return read(*header.body_as_Piece());
    case fb::Body::Credit: return Credit{within(header.body_as_Credit()->pieces(), 1U, 1U << 20, "credit")};
    case fb::Body::Done: return read(*header.body_as_Done());
    case fb::Body::Failed: return Failed{text(header.body_as_Failed()->reason(), "reason")};
    case fb::Body::Unreached: return Unreached{texts(header.body_as_Unreached()->peers(), kMostMembers, "peers")};
    case fb::Body::Probe: return Probe{within(header.body_as_Probe()->pieces(), 0U, kMostProbe, "pieces")};
    case fb::Body::Assigned: return Assigned{token_of(header.body_as_Assigned()->token())};
    case fb::Body::Leaving: return Leaving{};
    case fb::Body::Move: return Move{};
    case fb::Body::Squares: return Squares{header.body_as_Squares()->sum()};  // NaN when training diverges
    case fb::Body::Probed: {
      const fb::Probed& probed = *header.body_as_Probed();
      return Probed{{.busy_per_byte = within(probed.busy_per_byte(), 0.0, 1.0, "busy_per_byte"),
                     .memory = within(probed.memory(), 1.0, 1e15, "memory")}};
    }
    case fb::Body::NONE: break;
  }
  fail("message kind {} is unknown; run the same release of Convoy on both machines",
       static_cast<int>(header.body_type()));
}

}  // namespace

Message decode(std::span<const std::byte> bytes) {
  if (bytes.size() > kMostHeaderBytes) fail("the header has {} bytes; the limit is {}", bytes.size(), kMostHeaderBytes);
  // FlatBuffers needs an aligned buffer; a frame inside a receive buffer may begin at any address.
  const AlignedVector<std::byte> aligned(bytes.begin(), bytes.end());
  const auto* data = reinterpret_cast<const std::uint8_t*>(aligned.data());
  if (bytes.size() < 12 || !fb::HeaderBufferHasIdentifier(data))
    fail("the bytes are not a message of Convoy: their header lacks the identifier CVY2");
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/16, /*max_tables=*/1U << 17U);
  if (!fb::VerifyHeaderBuffer(verifier)) fail("the message is damaged");
  const fb::Header& header = *fb::GetHeader(data);
  if (header.body() == nullptr) fail("the message has no body");
  return read(header);
}

std::string name_of(const Message& message) {
  constexpr std::array<const char*, std::variant_size_v<Message>> kNames{
      "Hello",     "Welcome", "Refused",  "Bye",      "Ping",   "Attach",  "Calibrate", "Calibrated",
      "Assign",    "Load",    "Step",     "Snapshot", "Piece",  "Credit",  "Done",      "Failed",
      "Unreached", "Probe",   "Assigned", "Leaving",  "Probed", "Squares", "Move",      "Wanted"};
  return kNames[message.index()];
}

}  // namespace convoy::wire
