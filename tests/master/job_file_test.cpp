// Tests lists of jobs: what they say, and the errors for wrong files, each of which must name the place and the fix.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "master/jobs/job_file.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct BadList {
  std::string name;
  std::string text;
  std::vector<std::string> expected;
};

void PrintTo(const BadList& bad, std::ostream* out) { *out << bad.name; }

class BadLists : public testing::TestWithParam<BadList> {};

TEST_P(BadLists, AreRefusedWithPlaceAndFix) {
  try {
    parse_jobs(GetParam().text, "j.yaml");
    FAIL() << "accepted";
  } catch (const Error& error) {
    for (const std::string& expected : GetParam().expected) EXPECT_THAT(error.what(), HasSubstr(expected));
  }
}

/// A list of one good job and one with these fields.
std::string beside_a_good_one(const std::string& fields) {
  return "net: n.yaml\njobs:\n  - {name: a}\n  - " + fields + "\n";
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadLists,
    testing::Values(
        BadList{"Empty", "", {"j.yaml:1", "expected a list of jobs"}},
        BadList{"NoYaml", "jobs: [", {"j.yaml:1", "the text is not YAML; a bracket", "expected a list of jobs"}},
        BadList{"ATab", "net: n.yaml\njobs:\n\t- {name: a}\n", {"j.yaml:3", "the text is not YAML"}},
        BadList{"AList", "- {name: a}\n", {"j.yaml:1", "expected a list of jobs"}},
        BadList{"NoJobs", "net: n.yaml\n", {"j.yaml:1", "jobs is missing"}},
        BadList{"Misspelt", "net: n.yaml\njob: []\n", {"j.yaml:2", "job is not a field", "did you mean jobs"}},
        BadList{"NoneListed", "net: n.yaml\njobs: []\n", {"j.yaml:2", "jobs is empty", "name a job"}},
        BadList{"JobsAsMap", "net: n.yaml\njobs: {a: 1}\n", {"j.yaml:2", "jobs is no list"}},
        BadList{"JobAsWord", beside_a_good_one("b"), {"j.yaml:4", "job", "expected a map", "'b'"}},
        BadList{"NoName", beside_a_good_one("{epochs: 2}"), {"j.yaml:4", "name is missing"}},
        BadList{"NameTwice", beside_a_good_one("{name: a}"), {"j.yaml:4", "name is a, the name of another job"}},
        BadList{"NameAsPath", beside_a_good_one("{name: ../b}"), {"j.yaml:4", "'../b'", "a word of letters"}},
        BadList{"NameAsOption", beside_a_good_one("{name: --b}"), {"j.yaml:4", "begins like an option"}},
        BadList{"NameOfNets", beside_a_good_one("{name: nets}"), {"j.yaml:4", "folder of the nets", "choose another"}},
        BadList{"NoNet", "jobs:\n  - {name: a}\n", {"j.yaml:2", "a has no net", "net: FILE"}},
        BadList{"EmptyNet", beside_a_good_one("{name: b, net: ''}"), {"j.yaml:4", "net is empty"}},
        BadList{"NetAsList", beside_a_good_one("{name: b, net: [x]}"), {"j.yaml:4", "net is no text"}},
        BadList{"EmptyData", beside_a_good_one("{name: b, data: ''}"), {"j.yaml:4", "data is empty"}},
        BadList{"UnknownField", beside_a_good_one("{name: b, epoch: 2}"), {"j.yaml:4", "epoch", "did you mean epochs"}},
        BadList{
            "FieldTwice", beside_a_good_one("{name: b, epochs: 1, epochs: 2}"), {"j.yaml:4", "epochs is given twice"}},
        BadList{"NoEpochs", beside_a_good_one("{name: b, epochs: 0}"), {"j.yaml:4", "epochs is '0'", "from 1 to"}},
        BadList{"HalfAnEpoch", beside_a_good_one("{name: b, epochs: 1.5}"), {"j.yaml:4", "'1.5'", "whole number"}},
        BadList{"NegativeSeed", beside_a_good_one("{name: b, seed: -1}"), {"j.yaml:4", "seed is not a whole number"}},
        BadList{"SeedAsWord", "net: n.yaml\nseed: x\njobs: [{name: a}]\n", {"j.yaml:2", "seed is not a whole number"}},
        BadList{"SetAsList", beside_a_good_one("{name: b, set: [conv1.filters=3]}"), {"j.yaml:4", "set is no map"}},
        BadList{"SetOfNoField",
                beside_a_good_one("{name: b, set: {filters: 3}}"),
                {"j.yaml:4", "filters is no field of a net", "OWNER.FIELD"}},
        BadList{"SetToAList",
                beside_a_good_one("{name: b, set: {conv1.kernel: [3, 3]}}"),
                {"j.yaml:4", "conv1.kernel is no text", "in quotes"}},
        BadList{"SetEpochs",
                beside_a_good_one("{name: b, set: {training.epochs: 3}}"),
                {"j.yaml:4", "training.epochs is set by the field epochs"}},
        BadList{
            "NoMachines", beside_a_good_one("{name: b, machines: 0}"), {"j.yaml:4", "machines is '0'", "from 1 to 64"}},
        BadList{"MachinesByName",
                beside_a_good_one("{name: b, machines: attic}"),
                {"j.yaml:4", "machines is 'attic'", "whole number"}},
        BadList{"ManyMachines", "net: n.yaml\nmachines: 65\njobs: [{name: a}]\n", {"j.yaml:2", "machines is '65'"}},
        BadList{"SetForAll", "net: n.yaml\nset: {x: 1}\njobs: [{name: a}]\n", {"j.yaml:2", "x is no field of a net"}}),
    [](const auto& each) { return each.param.name; });

TEST(JobLists, TakeForEachJobWhatIsSaidOfAll) {
  const JobList list = parse_jobs(
      "net: n.yaml\ndata: cifar\nseed: 7\nepochs: 3\nset: {conv1.filters: 4, training.batch: 50}\njobs:\n"
      "  - {name: a}\n  - {name: b_2, net: m.yaml, data: glyphs, seed: 18446744073709551615, epochs: 1, set: "
      "{conv1.filters: 8, training.schedule: '{kind: cosine}'}}\n",
      "j.yaml");
  ASSERT_EQ(list.jobs.size(), 2U);
  const ListedJob& a = list.jobs[0];
  EXPECT_EQ(a.name + " " + a.net + " " + a.data, "a n.yaml cifar");
  EXPECT_EQ(a.seed, 7U);
  EXPECT_EQ(a.line, 7);
  EXPECT_THAT(a.set, ElementsAre("conv1.filters=4", "training.batch=50", "training.epochs=3"));
  const ListedJob& b = list.jobs[1];
  EXPECT_EQ(b.name + " " + b.net + " " + b.data, "b_2 m.yaml glyphs");
  EXPECT_EQ(b.seed, 18446744073709551615U);
  EXPECT_THAT(b.set, ElementsAre("training.batch=50", "conv1.filters=8", "training.schedule={kind: cosine}",
                                 "training.epochs=1"));
  EXPECT_EQ(place_of(list, b), "j.yaml:8: job b_2");
}

TEST(JobLists, ReadBackAsTheyAreWritten) {
  const JobList list = parse_jobs(
      "jobs:\n  - {name: a, net: \"my \\\"nets\\\"/ü: #1.yaml\", set: {training.schedule: '{kind: cosine}'}, epochs: "
      "2}\n"
      "  - {name: b, net: n.yaml, data: '/d: x', seed: 5, machines: 3}\n",
      "j.yaml");
  const JobList again = parse_jobs(to_yaml(list), "k.yaml");
  ASSERT_EQ(again.jobs.size(), list.jobs.size());
  for (std::size_t j = 0; j < list.jobs.size(); ++j) {
    EXPECT_EQ(again.jobs[j].name, list.jobs[j].name);
    EXPECT_EQ(again.jobs[j].net, list.jobs[j].net);
    EXPECT_EQ(again.jobs[j].data, list.jobs[j].data);
    EXPECT_EQ(again.jobs[j].seed, list.jobs[j].seed);
    EXPECT_EQ(again.jobs[j].machines, j == 0 ? 1 : 3);
    EXPECT_EQ(again.jobs[j].set, list.jobs[j].set);
  }
}

TEST(JobLists, AreRefusedWhereTheFileIsMissingOrTooLarge) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_jobs(folder.path() + "/none.yaml"), Error);
  try {
    parse_jobs(std::string((std::size_t{1} << 20) + 1, ' '), "j.yaml");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the limit for jobs"));
  }
}

}  // namespace
}  // namespace convoy
