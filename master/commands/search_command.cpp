#include <filesystem>
#include <optional>
#include <utility>

#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/output.hpp"
#include "core/stop_signal.hpp"
#include "core/stopwatch.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/run_options.hpp"
#include "master/commands/search_options.hpp"
#include "master/commands/training_run.hpp"
#include "master/commands/trial_runs.hpp"
#include "master/commands/trials_at_once.hpp"
#include "master/jobs/fields_of_files.hpp"
#include "master/jobs/search_output.hpp"
#include "master/jobs/trial_book.hpp"
#include "master/jobs/trial_report.hpp"
#include "master/report/gnuplot.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

Space space_of(const SearchOptions& options) {
  Space space = read_space(options.space);
  if (options.trials > 0) space.budget.trials = options.trials;
  if (options.images > 0) space.budget.images = options.images;
  if (options.hours > 0.0) space.budget.hours = options.hours;
  if (options.has_seed) space.seed = options.train.net.seed;
  return space;
}

/// The options of each trial, with what the space says and the command line does not.
TrainOptions options_of_trials(const SearchOptions& options, const Space& space) {
  TrainOptions train = options.train;
  if (!options.has_data && !space.data.empty()) {
    train.net.data = space.data == "glyphs" ? space.data : path_beside(space.file, space.data);
  }
  train.net.seed = space.seed;
  train.net.net = options.resume ? options.train.out + "/" + kNetOfSearch : path_beside(space.file, space.net);
  train.net.set.clear();
  train.net.batch = 0;
  train.epochs = 0;
  if (!options.has_val_split && space.val_split > 0.0) {
    train.net.val_split = space.val_split;
    train.given["val-split"] = fmt::format("{}", space.val_split);
  }
  train.given["data"] = place_of_data(train.net.data);
  train.given["seed"] = std::to_string(space.seed);
  train.net.data = train.given["data"];
  return train;
}

/// Reads the net and every end of a range. Throws Error for what no trial could train.
Net checked_net(const SearchOptions& options, const TrainOptions& train, const Space& space) {
  if (!paced_device(train.net).empty()) {
    fail(
        "--device {} has no meaning for a search: a paced device computes nothing that could be compared; leave it out",
        train.net.device);
  }
  std::error_code ignored;
  if (!fs::exists(train.net.net, ignored)) {
    fail("{}:{}: net is {}, which is neither beside this file nor in the current folder; give the path of a net file",
         space.file, space.net_line, space.net);
  }
  Net net = read_net(train.net.net, options.fixed);
  if (net.training.patience > 0) {
    fail(
        "{}: training.patience cannot be combined with a search, whose trials end by their rungs and by their epochs; "
        "give --set training.patience=0",
        net.file);
  }
  expect_in_net(space, train.net.net, options.fixed);
  return net;
}

/// Tells the search of a trial's steps.
class TrialObserver : public Observer {
 public:
  TrialObserver(SearchOutput& output, long& step) : output_(output), step_(step) {}
  void on_start(const RunStart& start) override { step_ = start.first_step; }
  void on_notice(const std::string& text) override { output_.notice(text); }
  void on_step(const StepReport& report) override {
    step_ = report.step;
    output_.step(report);
  }

 private:
  SearchOutput& output_;
  long& step_;  ///< steps that the trial has done
};

/// One call of `convoy-master search`.
class SearchCommand {
 public:
  SearchCommand(const SearchOptions& options, std::string command_line)
      : options_(options),
        command_line_(std::move(command_line)),
        space_(space_of(options)),
        train_(options_of_trials(options, space_)),
        net_(checked_net(options, train_, space_)) {
    open_images(net_);
    require_fits(*data_, net_);
    // Trials may differ in these fields; each trial is refused by itself then.
    if (!space_.has("training.teacher") && !space_.has("training.mix")) require_labels(*data_, net_);
    expect_batches_fit();
    ladder_ = ladder_of(space_, static_cast<long>(net_.training.epochs) * data_->training.count());
    output_ = make_search_output(train_.net.format == "json", space_, ladder_);
    for (const std::string& text : std::exchange(data_->notices, {})) output_->notice(text);
    settle_folder();
    runs_ = std::make_unique<TrialRuns>(TrialRuns::Common{.space = space_,
                                                          .ladder = ladder_,
                                                          .fixed = options_.fixed,
                                                          .train = train_,
                                                          .folder = folder_,
                                                          .images = data_->training.count()});
    book_ = std::make_unique<TrialBook>(folder_, space_, ladder_);
  }

  int run() {
    const std::atomic<bool>& stop = catch_stop_signals();
    output_->begin({.net = net_.name,
                    .data = train_.net.data,
                    .folder = folder_,
                    .done = book_->results().size(),
                    .at_once = options_.at_once});
    if (data_->validation.count() > 0) {
      output_->notice(
          fmt::format("{} images for validation decide; the {} test images are left for `convoy-master test`",
                      data_->validation.count(), data_->test.count()));
    }
    return options_.at_once > 1 ? run_at_once(stop) : run_in_turn(stop);
  }

 private:
  /// One trial after another.
  int run_in_turn(const std::atomic<bool>& stop) {
    try {
      while (!is_out_of_time()) {
        const std::optional<Job> job = next_job(space_, ladder_, book_->results());
        if (!job) break;
        std::optional<RungResult> result = stop ? std::nullopt : run_job(*job);
        if (!result) return end("interrupted", "the search was interrupted", kInterrupted);
        add(std::move(*result));
      }
    } catch (const PeerLost& lost) {
      return end("failed", "the search stopped: " + std::string(lost.what()), kSlaveLost);
    }
    return end("finished", "the search has ended", kSuccess);
  }

  /// Several trials side by side, each on one machine.
  int run_at_once(const std::atomic<bool>& stop) {
    TrialsAtOnce trials({.options = options_,
                         .space = space_,
                         .ladder = ladder_,
                         .net = net_,
                         .data_options = train_.net,
                         .data = data_,
                         .runs = *runs_,
                         .results = book_->results(),
                         .add = [this](RungResult result) { add(std::move(result)); },
                         .is_out_of_time = [this] { return is_out_of_time(); },
                         .command_line = command_line_,
                         .output = *output_});
    trials.run(stop);
    if (!trials.failure().empty()) return end("failed", "the search stopped: " + trials.failure(), kFailure);
    if (trials.has_more()) return end("interrupted", "the search was interrupted", kInterrupted);
    return end("finished", "the search has ended", kSuccess);
  }

  /// Opens the images of a net. Photographs are scaled to the net's input, so that another input needs them anew.
  void open_images(const Net& net) {
    if (data_ && net.input == opened_for_ && net.resize == opened_resize_) return;
    data_ = std::make_shared<DataSet>(load_data(train_.net, space_.seed, net));
    opened_for_ = net.input;
    opened_resize_ = net.resize;
  }

  /// Throws Error where the training images are fewer than those of a batch.
  void expect_batches_fit() const {
    const int images = data_->training.count();
    if (!space_.has("training.batch") && net_.training.batch > images) {
      fail("{}: training.batch is {}, but {} has only {} training images; give a smaller batch with --batch", net_.file,
           net_.training.batch, train_.net.data, images);
    }
    for (const SearchedField& each : space_.parameters) {
      if (each.name != "training.batch") continue;
      for (const std::string& value : ends_of(each)) {
        if (std::stoi(value) <= images) continue;
        fail("{} has the value {}, but {} has only {} training images; give smaller batches", place_of(space_, each),
             value, train_.net.data, images);
      }
    }
  }

  /// Makes the folder of a new search, with all that it needs to be resumed.
  void settle_folder() {
    folder_ = options_.train.out;
    if (!options_.resume) {
      std::error_code ignored;
      const auto has = [&](const std::string& name) { return fs::exists(folder_ + "/" + name, ignored); };
      if (!folder_.empty() && (has(kSpaceOfSearch) || has("trials.jsonl"))) {
        fail("{} already holds a search; give --resume {} to go on with it, or choose another folder with --out",
             folder_, folder_);
      }
      folder_ = make_run_folder(folder_, "search-" + net_.name);
      write_text(folder_ + "/" + kNetOfSearch, read_text(train_.net.net));
    }
    write_search(folder_, {.run = train_.given,
                           .fixed = options_.fixed,
                           .trials = options_.trials,
                           .images = options_.images,
                           .hours = options_.hours});
    // The space comes last: a folder that has it is complete.
    if (!options_.resume) write_text(folder_ + "/" + kSpaceOfSearch, read_text(space_.file));
    train_.net.net = folder_ + "/" + kNetOfSearch;
  }

  bool is_out_of_time() const {
    double seconds = 0.0;
    for (const RungResult& each : book_->results()) seconds += each.seconds;
    return space_.budget.hours > 0.0 && seconds >= 3600.0 * space_.budget.hours;
  }

  /// Trains and tests a rung. Returns nothing if it was interrupted.
  std::optional<RungResult> run_job(const Job& job) {
    RungResult result{.trial = job.trial, .rung = job.rung, .setting = job.setting};
    Net net;
    try {
      net = runs_->net_of(job);
    } catch (const Error& error) {
      return refused_result(job, error.what());
    }
    open_images(net);
    const Stopwatch watch;
    const long steps = runs_->steps_at(net, job.rung);
    output_->begin_rung(job, steps);
    long step = 0;
    const RungEnd end = train_rung(job, steps, step);
    if (end.interrupted) return std::nullopt;
    if (!end.diverged.empty()) {
      result.outcome = TrialOutcome::diverged;
      result.why = end.diverged;
    } else {
      runs_->expect_at(job, end.steps, steps);
      step = end.steps;
      result.accuracy = end.tested->accuracy;
      result.loss = end.tested->loss;
    }
    result.images = step * net.training.batch;
    result.seconds = watch.seconds();
    return result;
  }

  RungEnd train_rung(const Job& job, long steps, long& step) {
    TrainOptions options = runs_->options_of(job, steps);
    std::error_code ignored;
    options.resume = fs::exists(options.out + "/config.yaml", ignored);
    TrainingRun::Parts parts{.observers = {}, .data = data_, .curves = false};
    parts.observers.push_back(std::make_unique<TrialObserver>(*output_, step));
    return TrainingRun(options, command_line_, std::move(parts)).run_rung();
  }

  void add(RungResult result) {
    const RungResult* best_before = best();
    const int trial_before = best_before != nullptr ? best_before->trial : 0;
    const double cost_before = best_before != nullptr ? cost_of(*best_before, space_.metric) : INFINITY;
    book_->add(std::move(result));
    const RungResult& added = book_->results().back();
    const bool is_best = cost_of(added, space_.metric) < cost_before && best()->trial == added.trial;
    output_->finish_rung(added, is_best);
    write_text(folder_ + "/trials.csv", to_csv(space_, book_->results()));
    if (best() != nullptr && best()->trial != trial_before) keep_best();
  }

  const RungResult* best() const {
    const auto all = best_of(book_->results(), space_.metric);
    return all.empty() ? nullptr : all.front();
  }

  void keep_best() const {
    const std::string config = runs_->folder_of(best()->trial) + "/config.yaml";
    std::error_code ignored;
    if (fs::exists(config, ignored)) write_text(folder_ + "/best.yaml", read_text(config));
  }

  std::string program() const { return command_line_.substr(0, command_line_.find(' ')); }

  int end(const std::string& how, const std::string& text, int code) {
    SearchEnd end{.how = how, .text = text, .best = best()};
    if (code != kSuccess) end.go_on = fmt::format("{} search --resume {}", program(), shell_word(folder_));
    if (end.best != nullptr) {
      keep_best();
      end.train = fmt::format("{} train {} --data {} --seed {}", program(), shell_word(folder_ + "/best.yaml"),
                              shell_word(train_.net.data), space_.seed);
      write_text(folder_ + "/slices.gnuplot", slice_script(space_, ladder_, book_->results()));
      run_gnuplot(folder_, "slices.gnuplot");
    }
    output_->end(end, book_->results());
    return code;
  }

  const SearchOptions& options_;
  std::string command_line_;
  Space space_;
  TrainOptions train_;  ///< the options that all trials have in common
  Net net_;             ///< without the values of any trial
  std::shared_ptr<DataSet> data_;
  FeatureShape opened_for_;
  int opened_resize_ = 0;  ///< Net::resize of these images
  Ladder ladder_;
  std::unique_ptr<SearchOutput> output_;
  std::string folder_;
  std::unique_ptr<TrialRuns> runs_;
  std::unique_ptr<TrialBook> book_;
};

}  // namespace

int search_command(const SearchOptions& options, const std::string& command_line) {
  go_on_without_output("the search goes on, and trials.jsonl in its folder tells how");
  return SearchCommand(options, command_line).run();
}

}  // namespace convoy
