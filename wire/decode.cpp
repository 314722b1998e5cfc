#include <array>
#include <cmath>

#include "wire/codec.hpp"
#include "wire/decode_checks.hpp"

namespace convoy::wire {
namespace {

constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kLongestText = 4096;
constexpr std::uint32_t kMostCapabilities = 64;
constexpr std::uint32_t kMostRepeats = 100;
constexpr std::uint32_t kMostScales = 1024;
constexpr std::uint32_t kMostTasks = 1U << 30;
constexpr std::uint64_t kMostValues = std::uint64_t{1} << 48;
constexpr std::uint32_t kMostProbe = 1024;

}  // namespace

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

namespace {

double seconds(double value, const char* field) { return within(value, 0.0, 1e9, field); }

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
              .peer_key = text(t.peer_key(), "peer key"),
              .memory_factor = t.memory_factor()};
  if (hello.memory_factor != 0.0) within(hello.memory_factor, 1.0, 100.0, "memory factor");
  if (hello.name.empty()) fail("the Hello has no name");
  return hello;
}

Calibrate read(const fb::Calibrate& t) {
  const Stage stage = stage_of(t.stage());
  const auto filters = within(t.filters(), 1U, static_cast<std::uint32_t>(stage.conv.filters), "filters");
  return {stage, filters, batch_of(t.batch()), t.input_gradient(), within(t.repeats(), 1U, kMostRepeats, "repeats")};
}

/// Reads the fields that Load and Snapshot share: the stage, the filters whose state is to travel, the number type, and
/// whether moments travel.
template <class T, class Table>
T read_state_of(const Table& t) {
  T message;
  message.stage_index = stage_index_of(t.stage_index());
  message.filters = {static_cast<int>(within(t.first(), 0U, kMostFilters, "first filter")),
                     static_cast<int>(within(t.count(), 1U, kMostFilters, "filter count"))};
  if constexpr (std::is_same_v<T, Snapshot>) message.gradients = t.gradients();
  message.type = static_cast<NumberType>(within(static_cast<int>(t.type()), 0, 2, "number type of a state"));
  message.moments = t.moments();
  return message;
}

Load read(const fb::Load& t) {
  Load load = read_state_of<Load>(t);
  if (t.contents() == nullptr || t.contents()->size() > kMostFilters)
    fail("the Load has no hashes, or more than {}", kMostFilters);
  expect_aligned<std::uint64_t>(*t.contents());
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

Piece read(const fb::Piece& t) {
  return {.step = t.step(),
          .task = within(t.task(), 0U, kMostTasks, "task"),
          .first = within(t.first(), std::uint64_t{0}, kMostValues, "first value")};
}

Originals read(const fb::Originals& t) {
  constexpr int kFarthest = 65536;
  constexpr std::uint32_t kMostChannels = 1024;
  Originals originals{
      .step = t.step(), .task = within(t.task(), 0U, kMostTasks, "task"), .contents = {}, .views = {}, .fill = {}};
  if (t.contents() == nullptr || t.contents()->size() == 0 || t.contents()->size() > kMostOriginals) {
    fail("the Originals has no hashes, or more than {}", kMostOriginals);
  }
  expect_aligned<std::uint64_t>(*t.contents());
  for (const fb::Content* each : *t.contents()) originals.contents.push_back({each->high(), each->low()});
  if (t.views() == nullptr || t.views()->size() == 0) return originals;
  if (t.views()->size() != t.contents()->size()) {
    fail("the Originals has {} views of {} images", t.views()->size(), t.contents()->size());
  }
  expect_aligned<std::int32_t>(*t.views());
  for (const fb::ImageView* each : *t.views()) {
    originals.views.push_back({.down = within(each->down(), -kFarthest, kFarthest, "rows of a view"),
                               .right = within(each->right(), -kFarthest, kFarthest, "columns of a view"),
                               .flip = each->flip()});
  }
  if (t.fill() == nullptr || t.fill()->size() == 0 || t.fill()->size() > kMostChannels) {
    fail("the Originals has no pixel for the outside of images, or more than {}", kMostChannels);
  }
  originals.fill.assign(t.fill()->begin(), t.fill()->end());
  return originals;
}

Missing read(const fb::Missing& t) {
  Missing missing{.step = t.step(), .task = within(t.task(), 0U, kMostTasks, "task"), .samples = {}};
  if (t.samples() == nullptr || t.samples()->size() > kMostOriginals) {
    fail("the Missing has no list of samples, or more than {}", kMostOriginals);
  }
  for (const std::uint32_t sample : *t.samples()) {
    if (!missing.samples.empty() && sample <= missing.samples.back())
      fail("sample {} follows sample {}; samples must ascend", sample, missing.samples.back());
    missing.samples.push_back(sample);
  }
  return missing;
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
          .refusal = text(t.refusal(), "refusal"),
          .refresh = seconds(t.refresh(), "refresh of a meter"),
          .wraps = t.wraps(),
          .gaps = t.gaps(),
          .gap_seconds = seconds(t.gap_seconds(), "seconds in gaps")};
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
  expect_aligned<double>(*t.stages());
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

std::vector<ChannelScale> read(const flatbuffers::Vector<const fb::ChannelScale*>& list) {
  if (list.size() > kMostScales) fail("the images have {} channels; the limit is {}", list.size(), kMostScales);
  expect_aligned<double>(list);
  std::vector<ChannelScale> scales;
  for (const fb::ChannelScale* each : list) scales.push_back({each->mean(), each->deviation()});
  validate(scales);
  return scales;
}

Step read(const fb::Step& t) {
  Step step{.number = t.number(), .work = {}};
  if (step.number == 0) fail("the Step has number 0; steps are numbered from 1");
  if (t.update() != nullptr) step.work.update = read(*t.update());
  if (const fb::Pass* pass = t.pass()) {
    step.work.pass = Pass{.training = pass->training(), .seed = pass->seed(), .squares = pass->squares()};
    if (pass->scales() != nullptr) step.work.scales = read(*pass->scales());
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
    case fb::Body::Assign: return assign_of(*header.body_as_Assign());
    case fb::Body::Load: return read(*header.body_as_Load());
    case fb::Body::Wanted: return read(*header.body_as_Wanted());
    case fb::Body::Step: return read(*header.body_as_Step());
    case fb::Body::Snapshot: return read_state_of<Snapshot>(*header.body_as_Snapshot());
    case fb::Body::Piece: return read(*header.body_as_Piece());
    case fb::Body::Credit: return Credit{within(header.body_as_Credit()->pieces(), 1U, 1U << 20, "credit")};
    case fb::Body::Originals: return read(*header.body_as_Originals());
    case fb::Body::Missing: return read(*header.body_as_Missing());
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
      "Hello",    "Welcome", "Refused",  "Bye",     "Ping",   "Attach", "Calibrate", "Calibrated", "Assign",
      "Load",     "Step",    "Snapshot", "Piece",   "Credit", "Done",   "Failed",    "Unreached",  "Probe",
      "Assigned", "Leaving", "Probed",   "Squares", "Move",   "Wanted", "Originals", "Missing"};
  return kNames[message.index()];
}

}  // namespace convoy::wire