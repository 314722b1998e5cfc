#include "master/report/plot_observer.hpp"

#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "core/stopwatch.hpp"
#include "master/report/gnuplot.hpp"

namespace convoy {
namespace {

constexpr double kSecondsBetween = 30.0;

/// The script after the line with the title. It leaves half an epoch free on both sides, because the range of a single
/// epoch would be empty.
constexpr const char* kScript = R"(set terminal pngcairo size 900,800
set output 'curves.png'
set datafile separator ','
stats 'results.csv' using 1 skip 1 name 'epochs' nooutput
stats 'results.csv' using 3 skip 1 name 'training' nooutput
stats 'results.csv' using 5 skip 1 name 'test' nooutput
least = training_min < test_min ? training_min : test_min
most = training_max > test_max ? training_max : test_max
set xrange [epochs_min - 0.5 : epochs_max + 0.5]
if (epochs_max - epochs_min < 20) { set xtics 1 }
set grid
set key outside bottom center horizontal
set multiplot layout 2,1 title heading noenhanced
set title 'Accuracy'
set xlabel 'epoch'
set ylabel 'accuracy (%)'
set yrange [0:100]
plot 'results.csv' using 1:(100 * $4) skip 1 with linespoints pointtype 7 title 'training', \
     ''            using 1:(100 * $6) skip 1 with linespoints pointtype 5 title 'test'
set title 'Loss'
set ylabel 'loss, mean over the images'
if (least > 0 && most > 20 * least) {
  set logscale y
  set yrange [*:*]
} else {
  set yrange [0:*]
}
plot 'results.csv' using 1:3 skip 1 with linespoints pointtype 7 title 'training', \
     ''            using 1:5 skip 1 with linespoints pointtype 5 title 'test'
unset multiplot
)";

/// Quotes a text for gnuplot.
std::string quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? "''" : std::string(1, letter);
  return quoted + "'";
}

/// Runs gnuplot in the background, so that training does not wait for it.
class PlotObserver : public Observer {
 public:
  explicit PlotObserver(std::string folder) : folder_(std::move(folder)) {}

  void on_start(const RunStart& start) override {
    const std::string heading = fmt::format("{} on {}, batch {}", start.net, start.data, start.batch);
    script_ = "# Draws results.csv: gnuplot curves.gnuplot\nheading = " + quoted(heading) + "\n" + kScript;
    write_script();
  }
  void on_epoch(const EpochReport&) override {
    fresh_ = true;
    const bool busy = drawing_.valid() && drawing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    if (busy || (drawn_ && since_.seconds() < kSecondsBetween)) return;
    draw();
  }
  void on_end(const RunEnd&) override {
    if (drawing_.valid()) drawing_.wait();
    if (fresh_) draw();
    if (drawing_.valid()) drawing_.wait();
  }

 private:
  void write_script() const { std::ofstream(folder_ + "/curves.gnuplot") << script_; }

  void draw() {
    std::error_code ignored;  // the folder may have been deleted since the start
    if (!std::filesystem::exists(folder_ + "/curves.gnuplot", ignored)) write_script();
    // Where the system refuses a thread, the run's end draws.
    drawing_ = std::async(std::launch::async | std::launch::deferred,
                          [folder = folder_] { return run_gnuplot(folder, "curves.gnuplot"); });
    drawn_ = true;
    fresh_ = false;
    since_.restart();
  }

  std::string folder_;
  std::string script_;
  bool fresh_ = false;  ///< whether an epoch is not plotted yet
  bool drawn_ = false;
  Stopwatch since_;
  std::future<bool> drawing_;
};

}  // namespace

std::unique_ptr<Observer> make_plot_observer(const std::string& folder) {
  return std::make_unique<PlotObserver>(folder);
}

}  // namespace convoy
