// Values of options, and words that were mistyped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/checks.hpp"
#include "cli/command_line.hpp"
#include "cli/help_format.hpp"
#include "cli/likely_meant.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

TEST(TypingErrors, LeadToTheWordThatWasMeant) {
  const std::vector<std::string> options{"--slaves", "--least-slaves", "--seed", "--epochs"};
  EXPECT_EQ(likely_meant("--slave", options), "--slaves");
  EXPECT_EQ(likely_meant("-slaves", options), "--slaves");
  EXPECT_EQ(likely_meant("--salves", options), "--slaves");
  EXPECT_EQ(likely_meant("--epoch", options), "--epochs");
  EXPECT_EQ(likely_meant("--learning-rate", options), "");
  EXPECT_EQ(likely_meant("", options), "");
  EXPECT_EQ(likely_meant(std::string(1000, 'x'), options), "");
}

std::string refusal(const CLI::Validator& check, std::string value) { return check(value); }

TEST(Checks, RefuseWhatIsNoNumberInRange) {
  EXPECT_EQ(refusal(whole_number(0, 256), "256"), "");
  for (const char* wrong : {"257", "-1", "", "4x", "1.5", "+3", " 3", "99999999999999999999"}) {
    EXPECT_THAT(refusal(whole_number(0, 256), wrong), HasSubstr("is not a whole number from 0 to 256")) << wrong;
  }
  EXPECT_EQ(refusal(any_whole_number(), "18446744073709551615"), "");
  EXPECT_THAT(refusal(any_whole_number(), "-1"), HasSubstr("'-1' is not a whole number"));
  EXPECT_THAT(refusal(any_whole_number(), "18446744073709551616"), HasSubstr("is not a whole number"));
  EXPECT_EQ(refusal(number(0.0, 10.0), "2.5"), "");
  EXPECT_THAT(refusal(number(0.0, 10.0), "nan"), HasSubstr("is not a number from 0 to 10"));
  EXPECT_THAT(refusal(positive_number(), "0"), HasSubstr("greater than 0"));
  EXPECT_THAT(refusal(positive_number(), "inf"), HasSubstr("greater than 0"));
}

TEST(Checks, NameTheWordsThatThereAre) {
  EXPECT_EQ(refusal(one_of({"text", "json"}), "json"), "");
  EXPECT_THAT(refusal(one_of({"text", "json"}), "jsno"), HasSubstr("did you mean json?"));
  EXPECT_THAT(refusal(one_of({"text", "json"}), "xml"), HasSubstr("choose one of: text, json"));
}

/// A program with one command, and what it says of a command line.
std::string answer_to(std::vector<const char*> words) {
  CLI::App app{"a program"};
  app.require_subcommand(1);
  int slaves = 0;
  std::string net;
  CLI::App& train = *app.add_subcommand("train", "trains");
  train.add_option("net", net, "net file")->required();
  CLI::Option* number = train.add_option("--slaves", slaves, "slaves to wait for")->check(whole_number(0, 9));
  bool alone = false;
  train.add_flag("--alone", alone, "without slaves")->excludes(number);
  CLI::App& test = *app.add_subcommand("test", "tests");
  test.add_option("--weights", net, "file");
  words.insert(words.begin(), "program");
  try {
    parse_command_line(app, "program", static_cast<int>(words.size()), const_cast<char**>(words.data()));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(CommandLines, AreExplainedInOwnWords) {
  EXPECT_EQ(answer_to({"train", "a.yaml", "--slaves", "2"}), "");
  EXPECT_EQ(answer_to({}), "no command is given; the commands are: train, test");
  EXPECT_EQ(answer_to({"trian", "a.yaml"}), "unknown command 'trian'; did you mean train?");
  EXPECT_EQ(answer_to({"fly"}), "unknown command 'fly'; the commands are: train, test");
  EXPECT_EQ(answer_to({"train"}), "program train needs NET: net file");
  EXPECT_EQ(answer_to({"train", "a.yaml", "--slvaes", "2"}), "unknown option --slvaes; did you mean --slaves?");
  EXPECT_EQ(answer_to({"train", "--slave=2"}), "unknown option --slave; did you mean --slaves?");
  EXPECT_EQ(answer_to({"train", "a.yaml", "--rate"}), "unknown option --rate; program train --help lists the options");
  EXPECT_EQ(answer_to({"train", "a.yaml", "--weights", "w"}),
            "train has no option --weights, but test has; program train --help lists the options");
  EXPECT_EQ(answer_to({"--slaves", "2", "train", "a.yaml"}),
            "--slaves comes before the command; write it after the command, as in program train --slaves");
  EXPECT_EQ(answer_to({"train", "a.yaml", "b.yaml"}),
            "'b.yaml' is one word too many; program train --help lists the options");
  EXPECT_EQ(answer_to({"train", "a.yaml", "--slaves"}), "--slaves needs a value: slaves to wait for");
  EXPECT_EQ(answer_to({"train", "a.yaml", "--slaves", "1", "--slaves", "2"}),
            "--slaves is given more than once; give it once");
  EXPECT_EQ(answer_to({"train", "a.yaml", "--slaves", "many"}), "--slaves: 'many' is not a whole number from 0 to 9");
  EXPECT_EQ(answer_to({"train", "a.yaml", "--slaves", "1", "--alone"}),
            "--slaves and --alone exclude each other; leave one of them out");
}

TEST(Help, FitsIntoATerminalAndEndsWithTheDefault) {
  CLI::App app{"A program whose description is long enough that one line of a terminal cannot hold all of its words."};
  std::string wire = "fp32";
  app.add_option(
         "--wire", wire,
         "number type in which maps and gradients travel between the machines, which is a text of several lines")
      ->check(one_of({"fp32", "bf16"}))
      ->capture_default_str();
  app.formatter(make_help_format());
  EXPECT_THAT(app.help(), HasSubstr("A program whose description is long enough that one line of a terminal cannot\n"
                                    "hold all of its words.\n"));
  EXPECT_THAT(app.help(), HasSubstr("  --wire {fp32,bf16}      number type in which maps and gradients travel\n"
                                    "                          between the machines, which is a text of several\n"
                                    "                          lines (default: fp32)\n"));
}

}  // namespace
}  // namespace convoy
