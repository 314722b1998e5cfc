// A file of results to which lines are only added, for results that outlive a master which is killed at any time.
#pragma once

#include <functional>
#include <string>

namespace convoy {

/// Only one process at a time can have a book.
class LineBook {
 public:
  /// What a book is called in errors.
  struct Words {
    std::string whole;       ///< such as "search": what a master works on
    std::string after_loss;  ///< what happens after a line and all after it are removed, as a clause
  };
  /// Opens the file, or makes it, and gives each line to `take`, which throws for a line that the book cannot have. A
  /// last line without an end, which a killed master was about to write, is cut off. Throws Error naming the file and
  /// the line.
  LineBook(std::string file, const Words& words, const std::function<void(const std::string& line)>& take);
  ~LineBook();
  LineBook(const LineBook&) = delete;
  LineBook& operator=(const LineBook&) = delete;

  /// Adds a line, which is given without its end, and waits until it is on the disk. Throws Error; `what` names the
  /// line.
  void add(const std::string& line, const std::string& what);

 private:
  void read(const Words& words, const std::function<void(const std::string& line)>& take);

  std::string file_;
  int descriptor_ = -1;
};

}  // namespace convoy
