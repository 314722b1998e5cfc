// Makes the folder of a run.
#pragma once

#include <string>
#include <utility>

namespace convoy {

/// The file in a run's folder with what teachers say of the training images.
inline constexpr const char* kTeacherOutputs = "teacher-outputs.safetensors";

/// Makes the folder `out`, or runs/NET-NUMBER with the first free number if `out` is empty, and returns its path.
/// Throws Error if `out` already holds a run or the folder cannot be made.
std::string make_run_folder(const std::string& out, const std::string& net);

/// A run folder in which no run has begun yet. Unless began() is called, the end of this object removes the files that
/// a run writes before it begins, and the folder as well if it was made for the run and nothing else is in it.
class UnbegunRun {
 public:
  UnbegunRun() = default;
  /// `made` tells whether the folder was made for this run.
  UnbegunRun(std::string folder, bool made) : folder_(std::move(folder)), made_(made) {}
  ~UnbegunRun();
  UnbegunRun(const UnbegunRun&) = delete;
  UnbegunRun& operator=(const UnbegunRun&) = delete;
  UnbegunRun& operator=(UnbegunRun&& other) noexcept;

  void began() { folder_.clear(); }

 private:
  std::string folder_;  ///< empty if there is nothing to remove
  bool made_ = false;
};

}  // namespace convoy
