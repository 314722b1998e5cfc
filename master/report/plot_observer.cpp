// Draws the curves of a run.

#include <fstream>

#include "master/report/gnuplot.hpp"
#include "train/observer.hpp"

namespace convoy {
namespace {

constexpr const char* kScript = R"(# Draws results.csv: gnuplot curves.gnuplot
set terminal pngcairo size 900,600
set output 'curves.png'
set datafile separator ','
set key autotitle columnhead outside bottom center horizontal
set xlabel 'epoch'
set ylabel 'accuracy'
set yrange [0:1]
set y2label 'loss'
set y2range [0:*]
set ytics nomirror
set y2tics
set grid
plot 'results.csv' using 1:4 with linespoints title 'training accuracy', \
     ''            using 1:6 with linespoints title 'test accuracy', \
     ''            using 1:3 axes x1y2 with lines dashtype 2 title 'training loss', \
     ''            using 1:5 axes x1y2 with lines dashtype 2 title 'test loss'
)";

class PlotObserver : public Observer {
 public:
  explicit PlotObserver(std::string folder) : folder_(std::move(folder)) {
    std::ofstream(folder_ + "/curves.gnuplot") << kScript;
  }
  void on_epoch(const EpochReport&) override { any_ = true; }
  void on_end(const RunEnd&) override {
    if (any_) run_gnuplot(folder_, "curves.gnuplot");
  }

 private:
  std::string folder_;
  bool any_ = false;
};

}  // namespace

std::unique_ptr<Observer> make_plot_observer(const std::string& folder) {
  return std::make_unique<PlotObserver>(folder);
}

}  // namespace convoy
