// The machine that meters read: its files, its commands, and plugs on its network. Tests give meters a made-up one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace convoy::energy {

/// A file or folder cannot be read. The text names it and the reason.
class Unreadable : public Error {
 public:
  Unreadable(const std::string& path, int code);
  int code() const { return code_; }  ///< an errno
  bool denied() const;
  bool missing() const;

 private:
  int code_;
};

class Machine {
 public:
  /// Paths are looked up in the folder `root`.
  explicit Machine(std::filesystem::path root = "/") : root_(std::move(root)) {}
  virtual ~Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Returns the text of a file of at most 64 KiB, without blanks at its end. Throws Unreadable.
  virtual std::string read(const std::string& path) const;
  /// Returns at most 1 MiB of a file from byte `begin` on. A path that is not absolute is not looked up in the root
  /// folder. Throws Unreadable, and Error if the file is shorter than `begin`.
  virtual std::string tail(const std::string& path, std::size_t begin) const;
  /// Returns the names in a folder, those with numbers in the order of the numbers. Throws Unreadable.
  virtual std::vector<std::string> names(const std::string& folder) const;
  /// Returns the last name of the path that a link leads to, such as "0000:01:00.0" for the device of a GPU. Returns an
  /// empty text if there is no link.
  std::string target(const std::string& link) const;

  /// Returns what a command prints to standard output. Throws Error if the command is missing, fails, or takes longer
  /// than 3 s.
  virtual std::string run(const std::vector<std::string>& command) const;
  /// Returns the body of an answer with status 200 to an HTTP request. Throws Error if there is none within 2 s.
  virtual std::string get(const std::string& host, const std::string& target) const;

  /// Returns the library of NVIDIA's drivers: the value of CONVOY_NVML_LIBRARY, or its usual name.
  virtual std::string nvml_library() const;
  /// Returns the seconds since 1970.
  virtual double unix_time() const;

 private:
  std::filesystem::path root_;
};

/// Returns the machine that the program runs on; its files are looked up in the folder that CONVOY_METER_ROOT names, if
/// there is such a variable.
std::unique_ptr<Machine> this_machine();

/// Runs a command without a shell and returns what it prints to standard output, at most 64 KiB. Throws Error, also
/// where the command takes longer than `seconds`.
std::string output_of(const std::vector<std::string>& command, double seconds);
/// Returns the processor time, in s, of the commands that this thread has run.
double command_seconds();
/// Sends GET for `target` to `host`, an address in numbers with an optional port, and returns the body of the answer,
/// at most 64 KiB. Throws Error, also where it takes longer than `seconds`.
std::string http_get(const std::string& host, const std::string& target, double seconds);

/// Returns the number that a text consists of. Throws Error with `where` if it is no finite number, as "N/A" and an
/// empty text.
double number_in(const std::string& text, const std::string& where);
/// Returns the file's number, or nothing if there is no such file or no number in it.
std::optional<double> number_if_any(const Machine& machine, const std::string& path);
/// Returns the file's text, or an empty text if it cannot be read.
std::string text_if_any(const Machine& machine, const std::string& path);
/// Returns the names in a folder that begin with `prefix`; none if there is no such folder.
std::vector<std::string> names_like(const Machine& machine, const std::string& folder, const std::string& prefix);

}  // namespace convoy::energy
