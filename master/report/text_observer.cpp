#include "master/report/text_observer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/stopwatch.hpp"
#include "core/text.hpp"
#include "master/report/energy_total.hpp"

namespace convoy {
namespace {

std::string duration(double seconds) {
  const auto whole = std::lround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

double total(const MemberTime& time) { return time.compute + time.transfer + time.wait; }

/// A number of bytes in MB, in four characters up to 9999 MB.
std::string megabytes(double bytes) { return fmt::format("{:4.{}f}", bytes / 1e6, bytes < 99.95e6 ? 1 : 0); }

double percent(double part, double whole) { return whole > 0.0 ? 100.0 * part / whole : 0.0; }

class TextObserver : public Observer {
 public:
  explicit TextObserver(TextOutput output) : lines_(std::move(output)) {}

  void on_start(const RunStart& start) override {
    start_ = start;
    tell_in_parts(fmt::format("net {}: {} parameters, batch {}, {} epoch{} of {} images", start.net, start.parameters,
                              start.batch, start.epochs, start.epochs == 1 ? "" : "s", start.training_images),
                  {"; data " + start.data});
    if (paced()) {
      lines_.line(
          fmt::format("{}: this run is a measurement: its devices take the time of computing and compute nothing, "
                      "and it saves no weights",
                      start.paced));
    }
    tell_shares(start.plan);
    for (const Plan& plan : start.other_replicas) tell_shares(plan);
    if (start.first_step > 0) lines_.line(fmt::format("resuming after step {}", start.first_step));
  }

  void on_notice(const std::string& text) override { lines_.line(printable(text)); }

  void on_plan(const Plan& plan) override {
    take_shares(plan);
    std::vector<std::string> shares;
    for (const std::string& member : plan.members) {
      shares.push_back(fmt::format("{} {:.0f} %", member, share_of_now(member)));
    }
    lines_.line(fmt::format("shares: {}", fmt::join(shares, ", ")));
  }

  void on_step(const StepReport& report) override {
    add_times(report.times, recent_);
    recent_seconds_ += report.seconds;
    if (!is_time()) return;
    std::vector<std::string> lines = members_now();
    lines.insert(lines.begin(), run_now(report));
    lines_.show(lines);
    recent_.clear();
    recent_seconds_ = 0.0;
  }

  void on_test(const TestReport& report) override {
    if (!is_time()) return;
    lines_.show({fmt::format("tested {} of {} images  accuracy {:.1f} %  {} left", report.tested, report.images,
                             100.0 * report.accuracy, duration(report.seconds_left))});
  }

  void on_epoch(const EpochReport& report) override {
    if (paced()) {
      lines_.line(fmt::format("epoch {}/{}: {}, nothing is computed; {:.2f} images/s, {}", report.epoch, start_.epochs,
                              start_.paced, report.images_per_second, duration(report.seconds)));
      return;
    }
    const std::string training = fmt::format("epoch {}/{}: training loss {:.4f}, accuracy {:.2f} %", report.epoch,
                                             start_.epochs, report.train_loss, 100.0 * report.train_accuracy);
    const std::string test =
        fmt::format("test loss {:.4f}, accuracy {:.2f} %; {:.0f} images/s, {}", report.test_loss,
                    100.0 * report.test_accuracy, report.images_per_second, duration(report.seconds));
    tell_in_parts(training, {"; " + test});
  }

  void on_end(const RunEnd& end) override {
    lines_.line(end.text.empty() ? fmt::format("finished in {}", duration(end.seconds)) : end.text);
    if (paced()) lines_.line(fmt::format("{}: nothing was computed, and no weights were saved", start_.paced));
    if (end.test_accuracy >= 0.0 && !paced()) {
      const bool best_before = end.best_epoch > 0 && end.best_accuracy > end.test_accuracy;
      lines_.line(fmt::format("test accuracy {:.2f} %{}", 100.0 * end.test_accuracy,
                              best_before ? fmt::format("; the best, {:.2f} %, was that of epoch {}: best.safetensors",
                                                        100.0 * end.best_accuracy, end.best_epoch)
                                          : ""));
    }
    if (shares_.size() > 1 || (!end.times.empty() && end.times[0].transfer > 0.0)) {
      lines_.line(fmt::format("{:<18}{:>8}{:>10}{:>10}{:>8}", "", "share", "compute", "transfer", "wait"));
      for (const MemberTime& time : end.times) {
        const std::string share =
            gone_.contains(time.member) ? "gone" : fmt::format("{:.1f} %", share_of_now(time.member));
        lines_.line(fmt::format("  {:<16}{:>8}{:>8.0f} %{:>8.0f} %{:>6.0f} %", time.member, share,
                                percent(time.compute, total(time)), percent(time.transfer, total(time)),
                                percent(time.wait, total(time))));
      }
    }
    tell_cost_of_replicas(end);
    if (end.staleness) {
      lines_.line(fmt::format("staleness of gradients: {:.2f} updates in the mean, {} at most", end.staleness->mean,
                              end.staleness->most));
    }
    const double images = static_cast<double>(end.step - start_.first_step) * start_.batch;
    for (const std::string& line :
         energy_lines(end.energy, {.images = images, .flops = flops_of(images), .seconds = end.seconds})) {
      lines_.line(printable(line));
    }
    if (end.verified >= 0) {
      lines_.line(fmt::format("verified: {} times what a slave sent was computed again and found right", end.verified));
    }
    if (!start_.folder.empty()) lines_.line("run folder: " + start_.folder);
    if (!end.go_on.empty()) lines_.line("go on with: " + end.go_on);
  }

 private:
  /// What replicas cost besides the traffic of their steps.
  void tell_cost_of_replicas(const RunEnd& end) {
    const auto steps = static_cast<double>(end.step - start_.first_step);
    double sent = 0.0;
    double received = 0.0;
    for (const MemberTime& time : end.times) {
      sent += time.states_sent;
      received += time.states_received;
    }
    if (start_.replicas == 0 || steps <= 0.0 || sent + received <= 0.0) return;
    const auto size = [](double bytes) {
      return bytes < 1e5 ? fmt::format("{:.1f} kB", bytes / 1e3) : fmt::format("{:.2f} MB", bytes / 1e6);
    };
    lines_.line(fmt::format("weights and gradients in a step: slaves receive {} and send {}", size(received / steps),
                            size(sent / steps)));
  }
  /// Whether the run's devices compute nothing.
  bool paced() const { return !start_.paced.empty(); }

  /// Whether the next progress report is due.
  bool is_time() {
    if (shown_ && since_.seconds() < lines_.output().seconds_between) return false;
    shown_ = true;
    since_.restart();
    return true;
  }

  /// Takes the shares of a replica's new plan, or of the plan of all. Who was in the plan before it and is not in it
  /// has gone.
  void take_shares(const Plan& plan) {
    const std::vector<double> shares = work_shares(start_.stages, plan);
    const auto in_plan = [&](const std::string& member) { return std::ranges::count(plan.members, member) > 0; };
    // The plan before it: of several replicas, the plan with a member of this one.
    auto before = start_.replicas == 0 ? plans_.begin() : std::ranges::find_if(plans_, [&](const auto& members) {
      return std::ranges::any_of(members, in_plan);
    });
    if (before == plans_.end()) before = plans_.insert(plans_.end(), plan.members);
    for (const std::string& member : *before) {
      if (!in_plan(member)) gone_.insert(member);
    }
    *before = plan.members;
    for (const std::string& member : plan.members) gone_.erase(member);
    for (std::size_t m = 0; m < shares.size(); ++m) shares_[plan.members[m]] = shares[m];
  }

  void tell_shares(const Plan& plan) {
    take_shares(plan);
    for (std::size_t m = 0; m < plan.members.size(); ++m) {
      tell_in_parts(fmt::format("  {:<16} {:5.1f} % of the work", plan.members[m], share_of_now(plan.members[m])),
                    filters_of(plan, m));
    }
  }

  /// Writes a line with further parts, each of which begins with a comma or semicolon and a space. Where a terminal is
  /// too narrow, the line is broken instead, and goes on indented.
  void tell_in_parts(std::string line, const std::vector<std::string>& parts) {
    const auto size = lines_.size();
    const std::string indent(line.find_first_not_of(' ') + 2, ' ');
    for (const std::string& part : parts) {
      if (size && width_of(line + part) >= size->columns) {
        lines_.line(line);
        line = indent + part.substr(2);
      } else {
        line += part;
      }
    }
    lines_.line(line);
  }

  /// The filters of a member in each of its stages, and its samples where members share these, if there are few stages.
  /// For other nets, `convoy-master plan` prints them.
  std::vector<std::string> filters_of(const Plan& plan, std::size_t member) const {
    constexpr std::size_t kFew = 8;
    if (start_.stages.size() > kFew) return {};
    std::vector<std::string> all;
    for (std::size_t s = 0; s < start_.stages.size(); ++s) {
      const StagePlan& stage = plan.stages[s];
      const Tile tile = tile_of(stage, static_cast<int>(member));
      if (tile.box().empty()) continue;
      const char* before = all.empty() ? "; filters: " : ", ";
      std::string& text = all.emplace_back();
      text =
          fmt::format("{}{} {}/{}", before, start_.stages[s].name, tile.filters.count, start_.stages[s].conv.filters);
      if (!has_several_rows(stage)) continue;
      text += fmt::format(" in {}/{} samples", tile.samples.count * plan.micro_batches, plan.batch);
    }
    return all;
  }

  /// The current share of a member in the work of its replica, in percent.
  double share_of_now(const std::string& member) const {
    const auto found = shares_.find(member);
    return found == shares_.end() ? 0.0 : 100.0 * found->second;
  }

  /// The line of the run. Where a terminal is too narrow for all of it, the least important fields are left out.
  std::string run_now(const StepReport& report) const {
    const std::string epoch = fmt::format("epoch {}/{}", report.epoch, start_.epochs);
    const std::string step = fmt::format("  step {}/{}", report.step_in_epoch, report.steps_per_epoch);
    // A paced device gives no results.
    const std::string loss = paced() ? "  " + start_.paced : fmt::format("  loss {:.4f}", report.mean_loss);
    const std::string accuracy =
        paced() ? ", nothing is computed" : fmt::format("  accuracy {:.1f} %", 100.0 * report.accuracy);
    const std::string speed = fmt::format("  {:.0f} images/s", report.images_per_second);
    const std::string left = fmt::format("  {} left", duration(report.seconds_left));
    const std::string watts = watts_now(report.energy);
    const auto size = lines_.size();
    const std::string all = epoch + step + loss + accuracy + speed + (watts.empty() ? "" : "  " + watts) + left;
    if (!size || width_of(all) < size->columns) return all;
    const std::string shorter = epoch + step + loss + accuracy + left;
    if (width_of(shorter) < size->columns) return shorter;
    return epoch + step + left;
  }

  /// Floating-point operations of the convolutions for so many images: forward, and both gradients.
  double flops_of(double images) const {
    double flops = 0;
    for (const Stage& stage : start_.stages) flops += 3 * conv_flops(stage, 1, stage.conv.filters);
    return flops * images;
  }

  /// A line for each member that shares the work: its share, the part of its time that it computes, and its traffic,
  /// which is one sum where the terminal is too narrow for the member's name beside both ways. Where the terminal is
  /// wide enough, also how the member spends the rest of its time.
  std::vector<std::string> members_now() const {
    std::vector<std::string> lines;
    if (recent_.size() < 2 && (recent_.empty() || recent_[0].transfer == 0.0)) return lines;
    for (const MemberTime& time : recent_) {
      if (gone_.contains(time.member)) continue;
      const double all = total(time);
      const double sent = (time.sent + time.states_sent) / recent_seconds_;
      const double received = (time.received + time.states_received) / recent_seconds_;
      const std::string busy = fmt::format("  {:<16} share {:3.0f} %, busy {:3.0f} %", time.member,
                                           share_of_now(time.member), percent(time.compute, all));
      const std::string text =
          fmt::format("{}, sends {} MB/s, receives {} MB/s", busy, megabytes(sent), megabytes(received));
      const std::string rest =
          fmt::format(", transfer {:.0f} %, waiting {:.0f} %", percent(time.transfer, all), percent(time.wait, all));
      const auto size = lines_.size();
      const auto fits = [&](const std::string& line) { return !size || width_of(line) < size->columns; };
      lines.push_back(fits(text + rest) ? text + rest
                      : fits(text)      ? text
                                        : fmt::format("{}, {} MB/s", busy, megabytes(sent + received)));
    }
    return lines;
  }

  LiveLines lines_;
  bool shown_ = false;
  Stopwatch since_;
  RunStart start_;
  std::map<std::string, double> shares_;         ///< of each member that has had one, by its last plan
  std::vector<std::vector<std::string>> plans_;  ///< the members of each replica's last plan
  std::set<std::string> gone_;                   ///< members of earlier plans
  std::vector<MemberTime> recent_;               ///< since the last report of progress
  double recent_seconds_ = 0.0;                  ///< the seconds of the steps since the last line
};

}  // namespace

std::unique_ptr<Observer> make_text_observer() { return make_text_observer(standard_output()); }

std::unique_ptr<Observer> make_text_observer(TextOutput output) {
  return std::make_unique<TextObserver>(std::move(output));
}

}  // namespace convoy
