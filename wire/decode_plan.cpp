// Decodes the stages of a trunk and its plan.

#include "wire/decode_checks.hpp"

namespace convoy::wire {
namespace {

constexpr std::size_t kMostLayers = 64;
constexpr std::uint32_t kMostMoves = 1U << 20U;
constexpr std::size_t kLongestToken = 64;

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

Resizing resizing_of(const fb::Resizing& table) {
  const auto axis = [](const fb::ResizedAxis* from) {
    return from == nullptr ? Resizing::Axis{} : Resizing::Axis{from->extent(), from->step(), from->start()};
  };
  const int mode = within(static_cast<int>(table.mode()), 0, 2, "mode of resizing");
  return {static_cast<Resizing::Mode>(mode), axis(table.rows()), axis(table.columns())};
}

ChannelLayer layer_of(const fb::LayerHolder& holder) {
  if (const auto* activation = holder.layer_as_ActivationLayer()) {
    const int kind = within(static_cast<int>(activation->kind()), 0, 14, "activation kind");
    return Activation{static_cast<Activation::Kind>(kind), activation->alpha(), activation->beta()};
  }
  if (const auto* pool = holder.layer_as_PoolLayer()) {
    const int kind = within(static_cast<int>(pool->kind()), 0, 2, "pooling kind");
    return Pooling{
        static_cast<PoolKind>(kind), pool->kernel_h(),   pool->kernel_w(),  pool->stride_h(), pool->stride_w(),
        pad_of(pool->pad()),         pool->dilation_h(), pool->dilation_w()};
  }
  if (const auto* dropout = holder.layer_as_DropoutLayer())
    return Dropout{dropout->rate(), dropout->stream(), dropout->spatial()};
  if (const auto* add = holder.layer_as_AddLayer()) return Add{sources_of(add->from())};
  if (const auto* multiply = holder.layer_as_MultiplyLayer()) {
    return Multiply{sources_of(multiply->from()), multiply->by_points()};
  }
  if (const auto* norm = holder.layer_as_BatchNormLayer())
    return BatchNorm{text(norm->name(), "name of a batch norm"), norm->epsilon(), norm->momentum(), norm->rate()};
  fail("a channel layer is of an unknown kind");
}

}  // namespace

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
                       .groups = conv.groups(),
                       .rate = conv.rate(),
                       .dilation_h = conv.dilation_h(),
                       .dilation_w = conv.dilation_w()},
              .after = {},
              .moments = static_cast<int>(within(table->moments(), 0U, 16U, "moments")),
              .kind = static_cast<StageKind>(within(static_cast<int>(table->kind()), 0, 5, "kind of stage")),
              .norm = {},
              .from = sources_of(table->from()),
              .shuffle = table->shuffle(),
              .group_norm = {},
              .resizing = {}};
  if (const fb::ResponseNorm* norm = table->norm()) stage.norm = {norm->size(), norm->alpha(), norm->beta(), norm->k()};
  if (const fb::GroupNorm* norm = table->group_norm()) {
    stage.group_norm = {norm->groups(), norm->epsilon(), norm->by_position()};
  }
  if (const fb::Resizing* by = table->resizing()) stage.resizing = resizing_of(*by);
  if (const auto* after = table->after()) {
    if (after->size() > kMostLayers) fail("a stage has {} layers; the limit is {}", after->size(), kMostLayers);
    for (const fb::LayerHolder* layer : *after) stage.after.push_back(layer_of(*layer));
  }
  validate(stage);
  return stage;
}

std::uint32_t batch_of(std::uint32_t batch) { return within(batch, 1U, kLargestBatch, "batch"); }

std::string token_of(const flatbuffers::String* from) {
  std::string token = text(from, "token");
  if (token.size() > kLongestToken) fail("the token has {} bytes; the limit is {}", token.size(), kLongestToken);
  return token;
}

namespace {

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
            .relayed = t.relayed(),
            .early_sums = number(t.early_sums(), kMostStages, "early sums")};
  if (const auto* unequal = t.unequal()) {
    if (unequal->size() > kMostMembers) fail("{} members are unequal; the limit is {}", unequal->size(), kMostMembers);
    for (const std::uint32_t each : *unequal) plan.unequal.push_back(number(each, kMostMembers - 1, "member"));
  }
  if (t.stages() == nullptr || t.stages()->size() > kMostStages)
    fail("the plan has no stages, or more than {}", kMostStages);
  for (const fb::StagePlan* stage : *t.stages()) plan.stages.push_back(read(*stage));
  return plan;
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

}  // namespace

Assign assign_of(const fb::Assign& t) {
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

}  // namespace convoy::wire
