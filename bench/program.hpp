// A process of one of Convoy's programs, for measurements.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace convoy {

/// The file descriptors of a program's standard streams. A negative one stands for /dev/null.
struct Streams {
  int input = -1;
  int output = -1;
  int errors = -1;
};

/// A process of a program in this program's folder. The destructor ends it.
class Program {
 public:
  /// Starts the program. If it cannot be started, throws Error, which says how to fix this.
  Program(const std::string& name, const std::vector<std::string>& arguments, const Streams& streams = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Waits for the program to end, and returns its exit code. Sets `mib` to its peak memory in MiB.
  int wait(double& mib);

 private:
  pid_t pid_ = 0;
};

}  // namespace convoy
