#include <flatbuffers/flatbuffers.h>

#include <array>
#include <cmath>

#include "wire/codec.hpp"
#include "wire/protocol_generated.h"

namespace convoy::wire {
namespace {

constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kMostCapabilities = 64;
constexpr std::size_t kMostLayers = 64;
constexpr std::uint32_t kLargestBatch = 65536;
constexpr std::uint32_t kMostStages = 4096;
constexpr std::uint32_t kMostRepeats = 100;
constexpr std::uint32_t kMostParts = 4;

std::string text(const flatbuffers::String* value, const char* field) {
  if (value == nullptr) return {};
  if (value->size() > kLongestText) fail("{} of {} bytes, {} at most", field, value->size(), kLongestText);
  return value->str();
}

template <class T>
T within(T value, T low, T high, const char* field) {
  if (!(value >= low && value <= high)) fail("{} {} is not within {} .. {}", field, value, low, high);
  return value;
}

double seconds(double value, const char* field) { return within(value, 0.0, 1e9, field); }

Padding pad_of(const fb::Pads* pad) {
  if (pad == nullptr) return {};
  return {pad->top(), pad->left(), pad->bottom(), pad->right()};
}

ChannelLayer layer_of(const fb::LayerHolder& holder) {
  if (const auto* activation = holder.layer_as_ActivationLayer()) {
    return static_cast<Activation>(within(static_cast<int>(activation->kind()), 0, 2, "activation kind"));
  }
  if (const auto* pool = holder.layer_as_PoolLayer()) {
    const int kind = within(static_cast<int>(pool->kind()), 0, 1, "pooling kind");
    return Pooling{static_cast<PoolKind>(kind), pool->kernel_h(), pool->kernel_w(), pool->stride_h(), pool->stride_w(),
                   pad_of(pool->pad())};
  }
  if (const auto* dropout = holder.layer_as_DropoutLayer()) return Dropout{dropout->rate(), dropout->stream()};
  fail("a channel layer of an unknown kind");
}

Stage stage_of(const fb::Stage* table) {
  if (table == nullptr || table->conv() == nullptr) fail("no stage, or one without a convolution");
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
                       .pad = pad_of(conv.pad())}};
  if (const auto* after = table->after()) {
    if (after->size() > kMostLayers) fail("a stage of {} layers, {} at most", after->size(), kMostLayers);
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
              .capabilities = {}};
  if (hello.name.empty()) fail("a Hello without a name");
  if (const auto* list = t.capabilities()) {
    if (list->size() > kMostCapabilities) fail("{} capabilities, {} at most", list->size(), kMostCapabilities);
    for (const flatbuffers::String* item : *list) hello.capabilities.push_back(text(item, "capability"));
  }
  return hello;
}

Calibrate read(const fb::Calibrate& t) {
  const Stage stage = stage_of(t.stage());
  const auto filters = within(t.filters(), 1U, static_cast<std::uint32_t>(stage.conv.filters), "filters");
  return {stage, filters, batch_of(t.batch()), t.input_gradient(), within(t.repeats(), 1U, kMostRepeats, "repeats")};
}

Hold read(const fb::Hold& t) {
  const Stage stage = stage_of(t.stage());
  const auto filters = static_cast<std::uint32_t>(stage.conv.filters);
  const auto first = within(t.first(), 0U, filters - 1, "first filter");
  const auto count = within(t.count(), 1U, filters - first, "filter count");
  return {.stage_index = stage_index_of(t.stage_index()),
          .stage = stage,
          .filters = {static_cast<int>(first), static_cast<int>(count)},
          .batch = batch_of(t.batch()),
          .input_gradient = t.input_gradient(),
          .wire = static_cast<NumberType>(within(static_cast<int>(t.wire()), 0, 2, "number type"))};
}

Piece read(const fb::Piece& t) {
  constexpr std::uint32_t kMost = 1U << 24;
  return {.part = within(t.part(), 0U, kMostParts - 1, "part"),
          .sample = within(t.sample(), 0U, kMost, "sample"),
          .samples = within(t.samples(), 1U, kMost, "samples"),
          .channel = within(t.channel(), 0U, kMost, "channel"),
          .channels = within(t.channels(), 1U, kMost, "channels")};
}

Update read(const fb::Update& t) {
  return {{.learning_rate = finite(t.learning_rate(), "learning rate"),
           .momentum = finite(t.momentum(), "momentum"),
           .weight_decay = finite(t.weight_decay(), "weight decay")}};
}

Message read(const fb::Header& header) {
  switch (header.body_type()) {
    case fb::Body::Hello: return read(*header.body_as_Hello());
    case fb::Body::Welcome:
      return Welcome{header.body_as_Welcome()->version(), text(header.body_as_Welcome()->run(), "run")};
    case fb::Body::Refused: return Refused{text(header.body_as_Refused()->reason(), "reason")};
    case fb::Body::Bye: return Bye{text(header.body_as_Bye()->reason(), "reason")};
    case fb::Body::Ping: return Ping{};
    case fb::Body::Attach: return Attach{text(header.body_as_Attach()->name(), "name")};
    case fb::Body::Calibrate: return read(*header.body_as_Calibrate());
    case fb::Body::Calibrated: return Calibrated{seconds(header.body_as_Calibrated()->seconds(), "seconds")};
    case fb::Body::Hold: return read(*header.body_as_Hold());
    case fb::Body::Load: return Load{stage_index_of(header.body_as_Load()->stage_index())};
    case fb::Body::Forward: {
      const fb::Forward& t = *header.body_as_Forward();
      return Forward{stage_index_of(t.stage_index()), {.training = t.training(), .seed = t.seed()}};
    }
    case fb::Body::Backward: return Backward{stage_index_of(header.body_as_Backward()->stage_index())};
    case fb::Body::Update: return read(*header.body_as_Update());
    case fb::Body::Snapshot: return Snapshot{stage_index_of(header.body_as_Snapshot()->stage_index())};
    case fb::Body::Piece: return read(*header.body_as_Piece());
    case fb::Body::Credit: return Credit{within(header.body_as_Credit()->frames(), 1U, 1U << 20, "credit")};
    case fb::Body::Done: {
      const fb::Done& t = *header.body_as_Done();
      return Done{seconds(t.compute(), "compute"), seconds(t.transfer(), "transfer"), seconds(t.wait(), "wait")};
    }
    case fb::Body::Failed: return Failed{text(header.body_as_Failed()->reason(), "reason")};
    case fb::Body::NONE: break;
  }
  fail("a message of an unknown kind ({}); is the peer of another release?", static_cast<int>(header.body_type()));
}

}  // namespace

Message decode(std::span<const std::byte> bytes) {
  if (bytes.size() > kMostHeaderBytes) fail("a header of {} bytes, {} at most", bytes.size(), kMostHeaderBytes);
  // The format wants its buffer aligned; a frame in the middle of a receive buffer need not be.
  const AlignedVector<std::byte> aligned(bytes.begin(), bytes.end());
  const auto* data = reinterpret_cast<const std::uint8_t*>(aligned.data());
  if (bytes.size() < 12 || !fb::HeaderBufferHasIdentifier(data))
    fail("not a message of Convoy (no CVY1 in its header)");
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/16, /*max_tables=*/256);
  if (!fb::VerifyHeaderBuffer(verifier)) fail("a damaged message");
  const fb::Header& header = *fb::GetHeader(data);
  if (header.body() == nullptr) fail("a message without a body");
  return read(header);
}

std::string name_of(const Message& message) {
  constexpr std::array<const char*, std::variant_size_v<Message>> kNames{
      "Hello", "Welcome", "Refused",  "Bye",    "Ping",     "Attach", "Calibrate", "Calibrated", "Hold",
      "Load",  "Forward", "Backward", "Update", "Snapshot", "Piece",  "Credit",    "Done",       "Failed"};
  return kNames[message.index()];
}

}  // namespace convoy::wire
