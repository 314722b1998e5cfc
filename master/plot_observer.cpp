// The curves of a run as a picture, drawn by gnuplot where it is installed.

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <fstream>

#include "master/observer.hpp"

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

/// Runs gnuplot in the folder. A picture is a convenience: without gnuplot the script stays for whoever has it.
void draw(const std::string& folder) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  for (const int stream : {0, 1, 2}) posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  // Whoever draws may be interrupted, though this program blocks the signals (core/stop_signal.hpp).
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::array<char, 8> program{"gnuplot"};
  std::array<char, 16> script{"curves.gnuplot"};
  std::array<char*, 3> arguments{program.data(), script.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, program.data(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) waitpid(pid, nullptr, 0);
}

class PlotObserver : public Observer {
 public:
  explicit PlotObserver(std::string folder) : folder_(std::move(folder)) {
    std::ofstream(folder_ + "/curves.gnuplot") << kScript;
  }
  void on_epoch(const EpochReport&) override { any_ = true; }
  void on_end(const RunEnd&) override {
    if (any_) draw(folder_);
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
