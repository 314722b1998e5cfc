#include "cli/checks.hpp"
#include "cli/command_line.hpp"
#include "master/commands/jobs_options.hpp"
#include "master/commands/options.hpp"

namespace convoy {
void define(CLI::App& command, EnsembleOptions& options) {
  command
      .add_option("members", options.members,
                  "the members: folders of runs, weights (.safetensors) beside their net, WEIGHTS@NET, or ONNX models")
      ->required();
  define_running(command, options.net, options.cluster);
  CLI::Option* test = command.add_flag_callback(
      "--test", [] {}, "measure the accuracy of each member and of the ensemble on the test images; the default");
  CLI::Option* predict = command
                             .add_option("--predict", options.images,
                                         "name the classes of these JPEG, PNG and WebP files, or folders of them")
                             ->type_name("IMAGE")
                             ->excludes(test);
  CLI::Option* exported =
      command.add_option("--export", options.out, "write the ensemble as one ONNX model")->excludes(test, predict);
  command.add_flag("--force", options.force, "overwrite that file if it exists")->needs(exported);
  CLI::Option* mean =
      command
          .add_option_function<std::string>(
              "--mean",
              [&options](const std::string& word) {
                options.how = word == "logits" ? Combination::logits : Combination::probabilities;
              },
              "what is averaged over the members: probabilities, or logits, the outputs in front of the loss")
          ->check(one_of({"probabilities", "logits"}))
          ->default_str("probabilities");
  command
      .add_flag_callback(
          "--vote", [&options] { options.how = Combination::votes; },
          "take the class that the most members choose; the mean of probabilities decides ties")
      ->excludes(mean);
  command.add_flag(
      "--in-turn", options.in_turn,
      "all slaves compute one member after another together; without this option, members are computed at the "
      "same time, each by one machine, unless an option such as --shares divides members among slaves");
  define_master_jobs(command, options.master_jobs, "members, without --in-turn,");
  command.add_option("--top", options.top, "number of classes to print for each image")
      ->check(whole_number(1, 65536))
      ->capture_default_str()
      ->needs(predict);
  command.parse_complete_callback([&command, &options] {
    const auto given = [&](const char* name) { return command.get_option(name)->count() > 0; };
    options.has_data = given("--data");
    options.has_corrupt = given("--corrupt");
    options.has_seed = given("--seed");
    if (given("--export") && options.out.empty()) {
      throw UsageError("--export: the name is empty; give the name of the ONNX file to write");
    }
    const char* shared = option_of_shared_nets(command);
    if (given("--master-jobs") && (options.in_turn || options.cluster.slaves == 0 || shared != nullptr)) {
      throw UsageError(fmt::format(
          "--master-jobs needs --slaves N, and each member on one machine; this is not so {}; leave out one of them",
          options.cluster.slaves == 0 ? "without slaves" : fmt::format("with {}", shared ? shared : "--in-turn")));
    }
    options.in_turn = options.in_turn || options.cluster.slaves == 0 || shared != nullptr;
    if (options.members.size() == 1) {
      throw UsageError(fmt::format(
          "an ensemble needs at least two members, and {} is one; name more, or use `convoy-master test` and `predict`",
          options.members.front()));
    }
  });
}

}  // namespace convoy
