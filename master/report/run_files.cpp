#include "master/report/run_files.hpp"

#include <filesystem>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/files.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

/// Waits for some seconds, or until somebody stops the program; returns whether somebody did.
bool stopped_within(std::chrono::seconds seconds, const std::function<bool()>& stopped) {
  const auto end = std::chrono::steady_clock::now() + seconds;
  while (!stopped()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace

void RunFiles::keep(const std::string& name, const std::string& text) {
  kept_[name] = text;
  write_text(folder_ + "/" + name, text);
}

void RunFiles::notice(const std::string& text) const {
  for (const auto& observer : observers_) observer->on_notice(text);
}

void RunFiles::make_anew() {
  std::error_code error;
  if (fs::is_directory(folder_, error)) return;
  fs::create_directories(folder_, error);
  if (error) fail("{}: the run folder is gone and cannot be made anew: {}", folder_, error.message());
  for (const auto& [name, text] : kept_) write_text(folder_ + "/" + name, text);
  notice(fmt::format(
      "{}: the run folder was gone and has been made anew; what the run wrote before is lost, and best.safetensors is "
      "written again after the next epoch that is better",
      folder_));
}

void RunFiles::save(const SavedState& state) {
  make_anew();
  write_text(folder_ + "/plan.json", state.plan);
  write_checkpoint(folder_, cut_, state.state, state.run);
  write_weights(folder_ + "/weights.safetensors", cut_, *state.state.model, net_);
  saved_step_ = steps_of(state.state.progress, state.run.length);
  for (const auto& observer : observers_) {
    observer->on_checkpoint(folder_ + "/checkpoint.safetensors", saved_step_);
  }
}

void RunFiles::try_to_save(SavedState state) {
  try {
    save(state);
    why_unsaved_.clear();
    unsaved_ = {};
  } catch (const Diverged&) {
    throw;  // an earlier state that could not be saved is finite, and finish() writes it
  } catch (const Error& error) {
    why_unsaved_ = error.what();
    unsaved_ = std::move(state);
    notice(why_unsaved_ + "; training goes on, and the next checkpoint is tried when it is due");
  }
}

void RunFiles::finish(const std::atomic<bool>& stop) {
  if (why_unsaved_.empty()) return;
  constexpr std::chrono::seconds kBetween{2};
  // After a first Ctrl-C, which ended the training, a second one ends the program as ever.
  const bool stopped_before = stop;
  const auto tell = [&] {
    notice(fmt::format(
        "{}; the weights of step {} are still in memory, and writing them is tried again every {} s until it succeeds; "
        "Ctrl-C ends the wait, and they are lost",
        why_unsaved_, steps_of(unsaved_.state.progress, unsaved_.run.length), kBetween.count()));
  };
  tell();
  while (true) {
    if (stopped_within(kBetween, [&] { return stop && !stopped_before; })) {
      fail("{}; the wait for it was ended, and the steps since the last checkpoint are lost", why_unsaved_);
    }
    try {
      save(unsaved_);
      why_unsaved_.clear();
      return;
    } catch (const Diverged&) {
      throw;
    } catch (const Error& error) {
      if (why_unsaved_ == error.what()) continue;
      why_unsaved_ = error.what();
      tell();
    }
  }
}

void RunFiles::try_to_save_best(const BestEpoch& best, const ModelState& model) {
  try {
    make_anew();
    write_best(best_file(), cut_, model, net_, best);
  } catch (const Diverged&) {
    throw;
  } catch (const Error& error) {
    notice(std::string(error.what()) + "; training goes on without the weights of its best epoch");
  }
}

std::string RunFiles::snapshot_file(int cycle) const {
  return fmt::format("{}/snapshot-{}.safetensors", folder_, cycle);
}

bool RunFiles::has_snapshot(int cycle) const {
  std::error_code ignored;
  return fs::exists(snapshot_file(cycle), ignored);
}

void RunFiles::try_to_save_snapshot(int cycle, int epoch, const ModelState& model) {
  try {
    make_anew();
    write_snapshot(snapshot_file(cycle), cut_, model, net_, cycle, epoch);
  } catch (const Diverged&) {
    throw;
  } catch (const Error& error) {
    notice(fmt::format("{}; training goes on without the snapshot of cycle {}", error.what(), cycle));
  }
}

BestEpoch RunFiles::best_before() {
  std::string fault;
  const BestEpoch best = read_best(best_file(), fault);
  if (!fault.empty()) notice(fault);
  return best;
}

}  // namespace convoy
