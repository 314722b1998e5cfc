// The space of a search: which fields of a net it may change, how it chooses values, and when it ends. It is read from
// a YAML file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// A field of the net, and the values that it may have.
struct SearchedField {
  enum class Kind : std::uint8_t {
    linear,   ///< any number from low to high
    log,      ///< any number from low to high, with a uniform logarithm; low is greater than 0
    integer,  ///< a whole number from low to high, both included
    choice    ///< one of `choices`
  };
  std::string name;  ///< as --set takes it, such as "training.learning_rate"
  Kind kind = Kind::choice;
  double low = 0.0;
  double high = 0.0;
  std::vector<std::string> choices = {};
  int steps = 0;  ///< the number of values in a grid; 0 where the file does not say
  int line = 0;   ///< line in the file, counted from 1
};

/// A value for each parameter of a space, in its order, as --set takes them.
using TrialSetting = std::vector<std::string>;

enum class Method : std::uint8_t { grid, random, tpe };

/// What of the images for validation, or else of the test images, is compared.
enum class Metric : std::uint8_t { accuracy, loss };

/// The numbers of training images after which a trial is tested, and goes on only if it is among the best.
struct Rungs {
  long first = 0;
  int factor = 3;  ///< each rung is so many times the one before; the best of so many trials goes on
  long last = 0;   ///< 0 for all epochs of the net
};

/// A search ends when one of these is used up. 0 means no bound.
struct Budget {
  long trials = 0;
  long images = 0;  ///< training images of all trials together
  double hours = 0.0;
};

struct Space {
  std::string file;
  std::string net;         ///< net file, as it was written
  int net_line = 0;        ///< where it was written
  std::string data;        ///< data set, as it was written; may be empty
  double val_split = 0.0;  ///< fraction of the training images that is set aside to judge trials; 0 for none
  Method method = Method::tpe;
  Metric metric = Metric::accuracy;
  std::uint64_t seed = 1;
  Budget budget;
  std::optional<Rungs> rungs;  ///< without rungs every trial trains for all its epochs
  std::vector<SearchedField> parameters;

  bool has(const std::string& parameter) const;
};

/// Reads a space. Throws Error naming file and line for every mistake that shows without the net.
Space read_space(const std::string& file);
/// Reads a space from text. `file` is the name that errors give.
Space parse_space(const std::string& text, const std::string& file);

/// The net with a setting. Throws Error.
Net net_with(const std::string& net, const Overrides& fixed, const Space& space, const TrialSetting& setting);

/// Reads the net with the ends of each range and with each choice. Throws Error naming the file and line of a parameter
/// where the net lacks the parameter or refuses its value. `fixed` has the overrides of the command line.
void expect_in_net(const Space& space, const std::string& net, const Overrides& fixed);

/// Where the file of a space says something, for errors: "space.yaml:7: parameters conv1.filters".
std::string place_of(const Space& space, const SearchedField& parameter);

/// The value at `unit`, from 0 to 1, of the range. Each choice and each whole number has an equal part of it. A number
/// of a linear or log range has six significant digits, so that a user can write it.
std::string value_at(const SearchedField& parameter, double unit);
/// The point of the range at which value_at() gives this value; the middle of the part of a choice or a whole number.
/// Throws Error where the value is not of the range.
double unit_of(const SearchedField& parameter, const std::string& value);
/// Both ends of a range, or all choices.
std::vector<std::string> ends_of(const SearchedField& parameter);
/// The number of choices or of whole numbers; 0 for linear and log ranges.
long count_of(const SearchedField& parameter);

/// "training.learning_rate=0.01 conv1.filters=8"
std::string text_of(const Space& space, const TrialSetting& setting);

}  // namespace convoy
