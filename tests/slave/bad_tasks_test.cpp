// Tests a slave with tasks that cannot be done. The slave must answer with the reason and serve the next run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/profile.hpp"
#include "tests/support/fake_master.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

struct BadTask {
  std::string name;
  void (*give)(FakeMaster& master);
  std::string says;
};

void PrintTo(const BadTask& bad, std::ostream* out) { *out << bad.name; }

/// An Assign of a stage with a batch norm, of which the slave and another member compute one sample each.
wire::Assign normalised_rows() {
  wire::Assign assign = assign_of();
  assign.trunk[0].after = {BatchNorm{.name = "norm"}};
  assign.plan = proportional_plan(assign.trunk, kBatch, {"worker", "other"}, {1.0, 1.0});
  cut_by_samples(assign.plan, assign.trunk, 1, {1.0, 1.0});
  assign.peers = {"", ""};
  return assign;
}

/// The task that sends the slave the joint moments of normalised_rows().
std::uint32_t moments_task() {
  const wire::Assign assign = normalised_rows();
  const TaskGraph graph = make_task_graph(assign.plan, assign.trunk);
  const auto task = std::ranges::find_if(
      graph.tasks, [](const Task& each) { return each.cargo == Cargo::joint_moments && each.to == 0; });
  return static_cast<std::uint32_t>(task - graph.tasks.begin());
}

/// An offer of images that the slave cannot have.
wire::Originals originals(std::uint64_t step) {
  wire::Originals offer{.step = step, .task = images_task(), .contents = {}, .views = {}, .fill = {}};
  for (std::uint64_t i = 0; i < kBatch; ++i) offer.contents.push_back({1, i});
  return offer;
}

constexpr std::size_t kMemory = std::size_t{1} << 20;  // of the slave

/// The largest batch for which the memory holds the shards.
std::uint32_t largest_batch() {
  std::uint32_t batch = 1;
  while (shard_bytes(stage(), stage().conv.filters, static_cast<int>(batch) + 1, false) <= kMemory) ++batch;
  return batch;
}

const std::vector<BadTask> kBadTasks{
    {"NoPlan",
     [](FakeMaster& m) {
       m.send(wire::Step{1, {.pass = Pass{}}});
     },
     "this slave has no plan yet"},
    {"NoPlanToLoad",
     [](FakeMaster& m) {
       m.send(wire::Load{0, {0, 1}, {{}}});
     },
     "this slave has no plan yet"},
    {"NoStageToLoad",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Load{1, {0, 1}, {{}}});
     },
     "of stage 1 are computed by this slave"},
    {"ContentsOfOtherBlocks",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Load{0, {0, 4}, {{}, {}}});
     },
     "the Load has 2 hashes, but its 4 filters make 1 blocks"},
    {"NoStageToSnapshot",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Snapshot{1, {0, 1}});
     },
     "of stage 1 are in a shard of this slave"},
    {"NotATask", [](FakeMaster& m) { m.send(wire::Done{}); }, "a master does not send Done"},
    {"APieceByItself", [](FakeMaster& m) { m.send_piece({.step = 1}, 4); }, "this slave has no plan yet"},
    {"TooLargeToHold", [](FakeMaster& m) { m.send(assign_of(4096)); }, "raise --memory"},
    {"NoRoomForValuesOnTheirWay", [](FakeMaster& m) { m.send(assign_of(largest_batch())); },
     "values on their way need"},
    {"TooLargeToTime", [](FakeMaster& m) { m.send(wire::Calibrate{.stage = stage(), .filters = 4, .batch = 4096}); },
     "raise --memory"},
    {"NoAddressOfAPeer",
     [](FakeMaster& m) {
       wire::Assign assign = assign_of();
       assign.trunk.push_back({.name = "conv2",
                               .channels = 4,
                               .height = 6,
                               .width = 6,
                               .conv = {.filters = 2, .kernel_h = 1, .kernel_w = 1},
                               .after = {}});
       assign.plan = proportional_plan(assign.trunk, kBatch, {"worker", "other"}, {1.0, 1.0});
       assign.plan.exchange = Exchange::ring;
       m.send(assign);
     },
     "Unreached"},
    {"StepOutOfTurn",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Step{2, {.pass = Pass{}}});
     },
     "step 2 came where step 1 was due"},
    {"UpdateWithoutGradients",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Step{1, {.update = UpdateStep{}}});
     },
     "an update came before the gradients that it needs"},
    {"UpdateOfMomentsThatItHasNot",
     [](FakeMaster& m) {
       wire::Assign assign = assign_of();
       assign.trunk[0].moments = 0;
       m.send(assign);
       m.next();
       m.send(training_step(1));
       m.send(wire::Step{2, {.update = UpdateStep{}}});
     },
     "an update needs 1 moments for each parameter, and stage conv1 has 0"},
    {"GradientsBeforeAStep",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Snapshot{0, {0, 1}, true});
     },
     "gradients were asked for before a training step"},
    {"ChangesBeforeALoad",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Snapshot{.stage_index = 0, .filters = {0, 1}, .type = NumberType::bf16});
     },
     "changes of filters 0 to 0 of stage 0 were asked for before these were loaded in 16 bits"},
    {"ThreeStepsAtOnce",
     [](FakeMaster& m) {
       m.assign();
       for (const std::uint64_t step : {1U, 2U, 3U}) m.send(training_step(step));
     },
     "step 3 came while step 2 waits"},
    {"SnapshotInAStep",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send(wire::Snapshot{0, {0, 1}});
     },
     "a Snapshot came in the middle of a step"},
    {"StepBeforeTheGradientsOfTheLastOneWereSent",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send(wire::Snapshot{0, {0, 1}, true});
       m.send(training_step(2));
     },
     "step 2 came before the gradients of step 1 were sent"},
    {"PieceOfAnotherStep",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send_piece({.step = 2}, kImages);
     },
     "a Piece of step 2 came in step 1"},
    {"TooManyPiecesOfTheNextStep",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send(training_step(2));
       for (int i = 0; i < 100; ++i) m.send_piece({.step = 2}, kImages);
     },
     "more Pieces of the next step came than the plan sends"},
    {"TooManyImages",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send_piece({.step = 1, .task = images_task()}, kImages + 1);
     },
     "73 bytes from value 0 on of task 1 came where values 0 to 72 are due, in pixels"},
    {"ScalesOfOtherImages",
     [](FakeMaster& m) {
       m.assign();
       wire::Step step = training_step(1);
       step.work.scales.assign(3, {});
       m.send(step);
     },
     "the images have 1 channels, but the Step has the mean and deviation of 3"},
    {"NoScales",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Step{1, {.pass = Pass{.training = true}}});
     },
     "the images have 1 channels, but the Step has the mean and deviation of 0"},
    {"TooManyMoments",
     [](FakeMaster& m) {
       m.send(normalised_rows());
       m.next();
       m.send(training_step(1));
       m.send_piece({.step = 1, .task = moments_task()}, sizeof(float) * 9);
     },
     "36 bytes from value 0 on of task"},
    {"OriginalsBeforeAStep",
     [](FakeMaster& m) {
       m.assign();
       m.send(originals(1));
     },
     "an Originals of step 1 came in step 0"},
    {"OriginalsOfNoTask",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       wire::Originals offer = originals(1);
       ++offer.task;
       m.send(offer);
     },
     "which sends no images to this slave"},
    {"OriginalsTwice",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send(originals(1));
       m.next();
       m.send(originals(1));
     },
     "which sends no images to this slave or has already begun to send them"},
    {"OriginalsAfterPixels",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send_piece({.step = 1, .task = images_task()}, kImages / 2);
       m.send(originals(1));
     },
     "which sends no images to this slave or has already begun to send them"},
    {"OriginalsOfOtherSamples",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       wire::Originals offer = originals(1);
       offer.contents.pop_back();
       m.send(offer);
     },
     "an Originals names 1 images, but task 1 sends 2"},
    {"OriginalsOfOtherChannels",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       wire::Originals offer = originals(1);
       offer.views.assign(kBatch, {});
       offer.fill = {1, 2};
       m.send(offer);
     },
     "an Originals has 2 pixels for the outside of images of 1 channels"},
    {"AnotherImageThanTheOffered",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send(originals(1));
       m.next();
       m.send_piece({.step = 1, .task = images_task()}, kImages / kBatch);
     },
     "the image of sample 0 of task 1 is not the one that was offered"},
    {"MoreOfAnImageThanIsDue",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send(originals(1));
       m.next();
       m.send_piece({.step = 1, .task = images_task()}, kImages);
     },
     "a Piece has 72 pixels of images from pixel 0 on; at most 36 are due, from pixel 0 on"},
    {"ImagesTwice",
     [](FakeMaster& m) {
       m.assign();
       m.send(training_step(1));
       m.send_piece({.step = 1, .task = images_task()}, kImages / 2);
       m.send_piece({.step = 1, .task = images_task()}, kImages / 2);
     },
     "from value 0 on of task 1 came where values 36 to 72"},
};

class BadTasks : public testing::TestWithParam<BadTask> {};

TEST_P(BadTasks, AreAnsweredWithTheReason) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint(), kMemory);
  ASSERT_TRUE(master.welcome());
  GetParam().give(master);
  EXPECT_THAT(master.failure(), HasSubstr(GetParam().says));
  master.send(wire::Bye{"enough"}, Channel::control);
  EXPECT_TRUE(master.welcome()) << "the slave must come back for the next run";
  EXPECT_FALSE(slave.over());
}

INSTANTIATE_TEST_SUITE_P(Table, BadTasks, testing::ValuesIn(kBadTasks),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace convoy
