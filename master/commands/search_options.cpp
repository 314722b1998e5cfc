#include "master/commands/search_options.hpp"

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/checks.hpp"
#include "cli/command_line.hpp"
#include "core/files.hpp"
#include "master/commands/jobs_options.hpp"
#include "master/commands/options.hpp"
#include "master/commands/run_options.hpp"
#include "nets/file/fields.hpp"

namespace convoy {
namespace {

constexpr std::int64_t kMostTrials = 1000000;
constexpr std::int64_t kMostImages = 1000000000000000;
constexpr double kMostHours = 1e6;
constexpr std::size_t kMostFixed = 4096;
constexpr std::size_t kLongestFixed = 256;

/// Options that decide what the trials compute, so that a search that goes on cannot change them.
constexpr std::array kOfTheTrials{"--set",    "--data", "--corrupt",   "--seed",   "--batch",
                                  "--epochs", "--out",  "--val-split", "--at-once"};

void expect_at_once(const CLI::App& command, const SearchOptions& options) {
  if (options.at_once == 1) {
    if (command.get_option("--master-jobs")->count() == 0) return;
    throw UsageError(
        "--master-jobs needs --at-once N, with N from 2 on; with one trial at a time all machines share it");
  }
  if (const char* name = option_of_shared_nets(command)) {
    throw UsageError(fmt::format(
        "{} cannot be combined with --at-once {}, because each trial is trained by one machine; leave out one of them",
        name, options.at_once));
  }
  if (options.master_jobs == 0 && options.train.cluster.slaves == 0) {
    throw UsageError("--master-jobs 0 without slaves leaves no machine to train on; give --slaves N, or leave it out");
  }
}

void resume_from(CLI::App& command, SearchOptions& options) {
  const auto folder = command.get_option("--resume")->as<std::string>();
  if (!options.space.empty()) {
    throw UsageError(
        fmt::format("search --resume {} takes the space from the folder; leave {} out", folder, options.space));
  }
  for (const char* name : kOfTheTrials) {
    if (command.get_option(name)->count() == 0) continue;
    throw UsageError(fmt::format(
        "{} cannot be combined with --resume, because it is the same for all trials of a search; leave it out", name));
  }
  options.train.out = folder;
  const SavedSearch saved = read_search(folder);
  take_over(command, run_to_take_over(command, saved.run));
  options.fixed = saved.fixed;
  if (options.trials == 0) options.trials = saved.trials;
  if (options.images == 0) options.images = saved.images;
  if (options.hours == 0.0) options.hours = saved.hours;
  options.space = folder + "/" + kSpaceOfSearch;
}

/// What --set, --batch and --epochs say.
std::vector<std::string> fixed_fields(const TrainOptions& options) {
  std::vector<std::string> fixed = options.net.set;
  if (options.net.batch > 0) fixed.push_back(fmt::format("training.batch={}", options.net.batch));
  if (options.epochs > 0) fixed.push_back(fmt::format("training.epochs={}", options.epochs));
  for (const std::string& each : fixed) {
    if (each.size() > kLongestFixed)
      fail("--set {}...: the text is longer than {} bytes", each.substr(0, 40), kLongestFixed);
  }
  return fixed;
}

}  // namespace

void define(CLI::App& command, SearchOptions& options) {
  command.add_option("space", options.space, "file with the parameters, their ranges and the budget of the search");
  define_training(command, options.train);
  command.add_option("--out", options.train.out, "folder of the search (default: runs/search-NET-NUMBER)");
  command
      .add_option_function<std::string>(
          "--resume", [&options](const std::string&) { options.resume = true; },
          "continue the search in this folder; a rung that it was training goes on from its last checkpoint")
      ->type_name("FOLDER");
  command.add_option("--trials", options.trials, "highest number of trials (default: as the space file says)")
      ->check(whole_number(1, kMostTrials));
  command
      .add_option("--images", options.images,
                  "highest number of training images of all trials together (default: as the space file says)")
      ->check(whole_number(1, kMostImages));
  command
      .add_option("--hours", options.hours,
                  "no rung begins after the trials have taken this number of hours (default: as the space file says)")
      ->check(number(1e-6, kMostHours));
  command
      .add_option("--at-once", options.at_once,
                  "number of trials under way at the same time; from 2 on, each is trained by one machine, a slave or "
                  "this machine, and with 1 all slaves share a trial")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  define_master_jobs(command, options.master_jobs, "trials, with --at-once,");
  command.parse_complete_callback([&command, &options] {
    if (options.resume) {
      resume_from(command, options);
    } else {
      if (options.space.empty()) throw CLI::RequiredError("SPACE, the file of a space, or --resume FOLDER");
      options.fixed = fixed_fields(options.train);
    }
    expect_at_once(command, options);
    options.train.given = options_given(command);
    options.has_data = options.train.given.contains("data");
    options.has_seed = options.train.given.contains("seed");
    options.has_val_split = options.train.given.contains("val-split");
  });
}

void write_search(const std::string& folder, const SavedSearch& search) {
  nlohmann::ordered_json json{{"run", search.run}, {"set", search.fixed}};
  if (search.trials > 0) json["trials"] = search.trials;
  if (search.images > 0) json["images"] = search.images;
  if (search.hours > 0.0) json["hours"] = search.hours;
  write_text(folder + "/" + kOptionsOfSearch, json.dump(1) + "\n");
}

SavedSearch read_search(const std::string& folder) {
  std::error_code ignored;
  const std::string file = folder + "/" + kOptionsOfSearch;
  for (const char* name : {kSpaceOfSearch, kNetOfSearch, kOptionsOfSearch}) {
    if (std::filesystem::exists(folder + "/" + name, ignored)) continue;
    fail("there is no search to resume in {}: the file {}/{} is missing; give --resume the folder of a search", folder,
         folder, name);
  }
  Fields fields = Fields::of_text(file, read_text(file), "options",
                                  "expected the options of a search, as `convoy-master search` wrote them");
  SavedSearch search{.run = fields.texts("run"), .fixed = fields.texts("set", kMostFixed)};
  if (fields.has("trials")) search.trials = fields.integer("trials", 1, kMostTrials);
  if (fields.has("images")) search.images = std::lround(fields.number("images", 1.0, static_cast<double>(kMostImages)));
  if (fields.has("hours")) search.hours = fields.number("hours", 1e-6, kMostHours);
  fields.finish();
  return search;
}

}  // namespace convoy
