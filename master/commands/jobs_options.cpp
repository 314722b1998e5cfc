#include "master/commands/jobs_options.hpp"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/checks.hpp"
#include "cli/command_line.hpp"
#include "core/files.hpp"
#include "master/commands/machine_options.hpp"
#include "master/commands/options.hpp"
#include "nets/file/fields.hpp"

namespace convoy {
namespace {

constexpr std::array kOfSharedNets{"--least-slaves", "--master-share", "--memory",       "--shares",
                                   "--wire",         "--exchange",     "--layout",       "--plan",
                                   "--micro-batch",  "--verify",       "--objective",    "--idle-off",
                                   "--power-from",   "--meter",        "--switch-watts", "--assume-watts"};

void resume_jobs(CLI::App& command, JobsOptions& options, const std::string& folder) {
  if (!options.file.empty()) {
    throw UsageError(
        fmt::format("jobs --resume {} takes the jobs from the folder; leave {} out", folder, options.file));
  }
  for (const char* name : {"--out", "--batch", "--corrupt"}) {
    if (command.get_option(name)->count() == 0) continue;
    throw UsageError(fmt::format(
        "{} cannot be combined with --resume, because the jobs go on as they were begun; leave it out", name));
  }
  options.train.out = folder;
  take_over(command, run_to_take_over(command, read_jobs_options(folder)));
  options.file = folder + "/" + kListOfJobs;
}

}  // namespace

void define_master_jobs(CLI::App& command, int& master_jobs, const std::string& what) {
  command
      .add_option(
          "--master-jobs", master_jobs,
          fmt::format("number of {} that this machine works on at the same time, each with an equal share of its "
                      "threads; 0: none",
                      what))
      ->check(whole_number(0, 64))
      ->capture_default_str();
}

void define(CLI::App& command, JobsOptions& options) {
  command.add_option("jobs", options.file, "file with the jobs: a net, data, fields of the net and epochs for each");
  define_machine(command, options.train.net);
  define_slaves(
      command, options.train.cluster,
      "number of slaves to wait for before the first job begins; slaves that come later are used, too; with 0 "
      "this machine computes all jobs");
  define_master_jobs(command, options.master_jobs, "jobs");
  define_checkpoints(command, options.train);
  command.add_option("--out", options.train.out, "folder of the jobs (default: runs/jobs-NUMBER)");
  command
      .add_option_function<std::string>(
          "--resume", [&options](const std::string&) { options.resume = true; },
          "go on with the jobs in this folder: finished jobs are not trained again, and others go on from their "
          "last checkpoints")
      ->type_name("FOLDER");
  command.parse_complete_callback([&command, &options] {
    if (options.resume) {
      resume_jobs(command, options, command.get_option("--resume")->as<std::string>());
    } else if (options.file.empty()) {
      throw CLI::RequiredError("JOBS, the file of a list of jobs, or --resume FOLDER");
    }
    options.train.given = options_given(command);
  });
}

const char* option_of_shared_nets(const CLI::App& command) {
  for (const char* name : kOfSharedNets) {
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option != nullptr && option->count() > 0) return name;
  }
  return nullptr;
}

void write_jobs_options(const std::string& folder, const RunOptions& given) {
  write_text(folder + "/" + kOptionsOfJobs, nlohmann::ordered_json{{"run", given}}.dump(1) + "\n");
}

RunOptions read_jobs_options(const std::string& folder) {
  std::error_code ignored;
  const std::string file = folder + "/" + kOptionsOfJobs;
  for (const char* name : {kListOfJobs, kOptionsOfJobs}) {
    if (std::filesystem::exists(folder + "/" + name, ignored)) continue;
    fail("there are no jobs to resume in {}: the file {}/{} is missing; give --resume the folder of jobs", folder,
         folder, name);
  }
  Fields fields = Fields::of_text(file, read_text(file), "options",
                                  "expected the options of jobs, as `convoy-master jobs` wrote them");
  RunOptions given = fields.texts("run");
  fields.finish();
  return given;
}

}  // namespace convoy
