#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/stopwatch.hpp"
#include "train/observer.hpp"

namespace convoy {
namespace {

std::string duration(double seconds) {
  const auto whole = std::lround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

double total(const MemberTime& time) { return time.compute + time.transfer + time.wait; }

double percent(double part, double whole) { return whole > 0.0 ? 100.0 * part / whole : 0.0; }

class TextObserver : public Observer {
 public:
  TextObserver() : terminal_(isatty(STDOUT_FILENO) == 1) {}

  void on_start(const RunStart& start) override {
    start_ = start;
    shares_ = work_shares(start.stages, start.plan);
    line(fmt::format("net {}: {} parameters, batch {}, {} epochs of {} images; data {}", start.net, start.parameters,
                     start.batch, start.epochs, start.training_images, start.data));
    for (std::size_t m = 0; m < start.plan.members.size(); ++m) {
      line(share_of(m));
    }
    if (start.first_step > 0) line(fmt::format("resuming after step {}", start.first_step));
  }

  void on_notice(const std::string& text) override { line(text); }

  void on_plan(const Plan& plan) override {
    start_.plan = plan;
    shares_ = work_shares(start_.stages, plan);
    line("shares from now on:");
    for (std::size_t m = 0; m < plan.members.size(); ++m) line(share_of(m));
  }

  void on_step(const StepReport& report) override {
    add_times(report.times, recent_);
    const double interval = terminal_ ? 0.2 : 10.0;
    if (shown_ && since_.seconds() < interval) return;
    shown_ = true;
    since_.restart();
    show(fmt::format("epoch {}/{}  step {}/{}  {:.0f} images/s  loss {:.4f}  accuracy {:.1f} %  {} left{}",
                     report.epoch, start_.epochs, report.step_in_epoch, report.steps_per_epoch,
                     report.images_per_second, report.mean_loss, 100.0 * report.accuracy, duration(report.seconds_left),
                     members_now()));
    recent_.clear();
  }

  void on_epoch(const EpochReport& report) override {
    line(
        fmt::format("epoch {}/{}: training loss {:.4f}, accuracy {:.2f} %; test loss {:.4f}, accuracy {:.2f} %; "
                    "{:.0f} images/s, {}",
                    report.epoch, start_.epochs, report.train_loss, 100.0 * report.train_accuracy, report.test_loss,
                    100.0 * report.test_accuracy, report.images_per_second, duration(report.seconds)));
  }

  void on_end(const RunEnd& end) override {
    line(end.how == "finished" ? fmt::format("finished in {}", duration(end.seconds)) : end.how);
    if (end.test_accuracy >= 0.0) line(fmt::format("test accuracy {:.2f} %", 100.0 * end.test_accuracy));
    if (start_.plan.members.size() > 1 || (!end.times.empty() && end.times[0].transfer > 0.0)) {
      line(fmt::format("{:<18}{:>8}{:>10}{:>10}{:>8}", "", "share", "compute", "transfer", "wait"));
      for (const MemberTime& time : end.times) {
        line(fmt::format("  {:<16}{:>6.1f} %{:>8.0f} %{:>8.0f} %{:>6.0f} %", time.member, share_of_now(time.member),
                         percent(time.compute, total(time)), percent(time.transfer, total(time)),
                         percent(time.wait, total(time))));
      }
    }
    line("run folder: " + start_.folder);
    if (!end.go_on.empty()) line("go on with: " + end.go_on);
  }

 private:
  std::string share_of(std::size_t member) const {
    return fmt::format("  {:<16} {:5.1f} % of the work{}", start_.plan.members[member], 100.0 * shares_[member],
                       filters_of(member));
  }

  /// The filters of a member, if the net has few stages. For other nets, `convoy-master plan` prints them.
  std::string filters_of(std::size_t member) const {
    constexpr std::size_t kFew = 8;
    if (start_.stages.size() > kFew) return "";
    std::string text;
    for (std::size_t s = 0; s < start_.stages.size(); ++s) {
      int count = 0;
      for (const Assignment& shard : start_.plan.stages[s].shards) {
        if (shard.member == static_cast<int>(member)) count += shard.filters.count;
      }
      text += fmt::format(", {} {}/{}", start_.stages[s].name, count, start_.stages[s].conv.filters);
    }
    return text;
  }

  /// The present share of a member in the work, in percent.
  double share_of_now(const std::string& member) const {
    const auto& members = start_.plan.members;
    const auto found = std::ranges::find(members, member);
    return found == members.end() ? 0.0 : 100.0 * shares_[static_cast<std::size_t>(found - members.begin())];
  }

  /// For each member its share and how it spends its time, in percent.
  std::string members_now() const {
    if (recent_.size() < 2 && (recent_.empty() || recent_[0].transfer == 0.0)) return "";
    std::string text;
    for (const MemberTime& time : recent_) {
      const double all = total(time);
      text += fmt::format(" | {} {:.0f} %: compute {:.0f} transfer {:.0f} wait {:.0f}", time.member,
                          share_of_now(time.member), percent(time.compute, all), percent(time.transfer, all),
                          percent(time.wait, all));
    }
    return text;
  }

  static std::size_t columns() {
    winsize size{};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  /// Shows the live line, which the next line overwrites.
  void show(std::string text) {
    if (!terminal_) return line(text);
    if (text.size() >= columns()) text.resize(columns() - 1);
    fmt::print("\r\x1b[K{}", text);
    std::fflush(stdout);
    live_ = true;
  }

  void line(const std::string& text) {
    fmt::print("{}{}\n", live_ ? "\r\x1b[K" : "", text);
    std::fflush(stdout);
    live_ = false;
  }

  bool terminal_;
  bool live_ = false;
  bool shown_ = false;
  Stopwatch since_;
  RunStart start_;
  std::vector<double> shares_;
  std::vector<MemberTime> recent_;
};

}  // namespace

std::unique_ptr<Observer> make_text_observer() { return std::make_unique<TextObserver>(); }

std::vector<double> work_shares(const std::vector<Stage>& stages, const Plan& plan) {
  std::vector<double> flops(plan.members.size(), 0.0);
  double sum = 0.0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const Assignment& shard : plan.stages[s].shards) {
      const double work = conv_flops(stages[s], 1, shard.filters.count);
      flops[static_cast<std::size_t>(shard.member)] += work;
      sum += work;
    }
  }
  if (sum > 0.0) {
    for (double& share : flops) share /= sum;
  }
  return flops;
}

}  // namespace convoy
