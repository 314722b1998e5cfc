#include <yaml-cpp/yaml.h>

#include <cmath>
#include <set>

#include "core/files.hpp"
#include "master/jobs/fields_of_files.hpp"
#include "master/jobs/space.hpp"
#include "nets/file/fields.hpp"

namespace convoy {
namespace {

constexpr std::size_t kLargestSpace = std::size_t{1} << 20;
constexpr std::size_t kMostParameters = 256;
constexpr std::size_t kMostChoices = 1000;
constexpr double kMostGrid = 1e6;
constexpr const char* kSpaceExpected =
    "expected the space of a search: net, trials and parameters, as in `parameters: {training.learning_rate: {log: "
    "[0.001, 0.3]}}`";

/// A whole number that may be larger than an int.
long whole(Fields& fields, const std::string& field, long low) {
  constexpr double kMost = 1e15;
  const double value = fields.number(field, static_cast<double>(low), kMost);
  if (value != std::floor(value)) fields.fail(field, fmt::format("is {}; expected a whole number", value));
  return static_cast<long>(value);
}

Rungs read_rungs(Fields fields) {
  Rungs rungs;
  rungs.first = whole(fields, "first", 1);
  if (fields.has("factor")) rungs.factor = fields.integer("factor", 2, 100);
  if (fields.has("last")) {
    rungs.last = whole(fields, "last", 1);
    if (rungs.last <= rungs.first) {
      fields.fail("last",
                  fmt::format("is {}; expected more images than those of the first rung, {}", rungs.last, rungs.first));
    }
  }
  fields.finish();
  return rungs;
}

void read_choices(Fields& fields, SearchedField& parameter) {
  parameter.choices = fields.texts("choice", kMostChoices);
  if (parameter.choices.empty()) fields.fail("choice", "is empty; expected a list of values, as in [sgd, adam]");
  std::set<std::string> seen;
  for (const std::string& each : parameter.choices) {
    if (each.empty()) fields.fail("choice", "holds an empty text; expected a value of the field");
    if (!seen.insert(each).second) fields.fail("choice", fmt::format("holds {} twice; name each value once", each));
  }
  if (fields.has("steps")) fields.fail("steps", "has no meaning beside choice, whose values are listed; leave it out");
}

void read_bounds(Fields& fields, const std::string& kind, SearchedField& parameter) {
  constexpr int kMostWhole = 1000000000;
  constexpr double kMostNumber = 1e300;
  std::vector<double> ends;
  if (!fields.node(kind).IsSequence()) fields.fail(kind, "is no list; expected its low and its high end, as in [1, 8]");
  if (parameter.kind == SearchedField::Kind::integer) {
    for (const int end : fields.integers(kind, 2, -kMostWhole, kMostWhole)) ends.push_back(end);
  } else {
    ends = fields.numbers(kind, 2, -kMostNumber, kMostNumber);
  }
  parameter.low = ends[0];
  parameter.high = ends[1];
  if (!(parameter.low < parameter.high)) {
    fields.fail(kind, fmt::format("is [{}, {}]; the first number must be less than the second", ends[0], ends[1]));
  }
  if (parameter.kind == SearchedField::Kind::log && parameter.low <= 0.0) {
    fields.fail(kind, fmt::format("begins at {}, which has no logarithm; begin above 0, or use linear", ends[0]));
  }
  if (fields.has("steps")) parameter.steps = fields.integer("steps", 2, 1000);
}

SearchedField read_parameter(Fields fields, const std::string& name) {
  static const std::map<std::string, SearchedField::Kind> kKinds{{"linear", SearchedField::Kind::linear},
                                                                 {"log", SearchedField::Kind::log},
                                                                 {"integer", SearchedField::Kind::integer},
                                                                 {"choice", SearchedField::Kind::choice}};
  std::string found;
  for (const auto& [kind, ignored] : kKinds) {
    if (!fields.has(kind)) continue;
    if (!found.empty()) fields.fail(kind, fmt::format("cannot stand beside {}; give one range", found));
    found = kind;
  }
  fields.has("steps");
  fields.finish();
  if (found.empty()) fields.fail("it has no range; give one of linear, log, integer and choice");
  SearchedField parameter{.name = name, .kind = kKinds.at(found)};
  parameter.line = fields.line();
  if (parameter.kind == SearchedField::Kind::choice) {
    read_choices(fields, parameter);
  } else {
    read_bounds(fields, found, parameter);
  }
  return parameter;
}

std::vector<SearchedField> read_parameters(Fields& root) {
  const YAML::Node list = root.node("parameters");
  if (!list.IsMap() || list.size() == 0 || list.size() > kMostParameters) {
    root.fail("parameters", fmt::format("is no map of 1 to {} ranges, as in {{training.learning_rate: {{log: [0.001, "
                                        "0.3]}}}}",
                                        kMostParameters));
  }
  Fields fields = root.map("parameters");
  std::vector<SearchedField> parameters;
  for (const auto& entry : list) {
    const std::string name = entry.first.Scalar();
    if (!is_field_name(name)) {
      fields.fail(name, "is no field of a net; expected OWNER.FIELD, as in conv1.filters or training.learning_rate");
    }
    if (!entry.second.IsMap()) fields.fail(name, "has no range; expected one such as {log: [0.001, 0.3]}");
    if (name == "training.patience") {
      fields.fail(name, "cannot be searched; trials of a search end by their rungs and by their epochs");
    }
    SearchedField parameter = read_parameter(fields.map(name), name);
    parameter.line = entry.first.Mark().line + 1;
    for (const SearchedField& other : parameters) {
      if (name.starts_with(other.name + ".") || other.name.starts_with(name + ".")) {
        fields.fail(name, fmt::format("and {} set the same field; leave out one of them", other.name));
      }
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

void expect_grid(Fields& root, const Space& space) {
  double size = 1.0;
  for (const SearchedField& each : space.parameters) {
    const long count = count_of(each);
    if (count == 0 && each.steps == 0) {
      throw Error(fmt::format("{} needs steps for a grid, the number of its values, as in {{linear: [0, 1], steps: 5}}",
                              place_of(space, each)));
    }
    size *= static_cast<double>(each.steps > 0 ? each.steps : count);
  }
  if (size <= kMostGrid) return;
  root.fail("parameters", fmt::format("make a grid of {:.3g} settings; the limit is {:.0f}, so give steps, or use the "
                                      "method random or tpe",
                                      size, kMostGrid));
}

/// Throws Error for what single fields do not show.
void expect_consistent(Fields& root, const Space& space) {
  if (space.method == Method::grid) {
    expect_grid(root, space);
  } else if (space.budget.trials == 0 && space.budget.images == 0 && space.budget.hours == 0.0) {
    root.fail("the search has no end; give trials, images or hours");
  }
  if (space.rungs && space.budget.images > 0 && space.budget.images < space.rungs->first) {
    root.fail("images",
              fmt::format("is {}, fewer than the {} of the first rung, so that no trial could be trained; give "
                          "more images, or a smaller first rung",
                          space.budget.images, space.rungs->first));
  }
  if (space.has("training.epochs") && (space.rungs || space.budget.images > 0)) {
    root.fail("parameters", fmt::format("have training.epochs, which cannot stand beside {}: all trials have the same "
                                        "images there; leave out one of the two",
                                        space.rungs ? "rungs" : "images"));
  }
}

template <class T>
T word_of(Fields& fields, const std::string& field, const std::map<std::string, T>& words, const char* expected) {
  const std::string word = fields.word(field);
  const auto found = words.find(word);
  if (found == words.end()) fields.fail(field, fmt::format("is '{}'; expected {}", word, expected));
  return found->second;
}

Space read_fields(Fields root, const std::string& file) {
  Space space;
  space.file = file;
  space.net = path_in(root, "net");
  space.net_line = root.node("net").Mark().line + 1;
  if (root.has("data")) space.data = path_in(root, "data");
  if (root.has("val_split")) space.val_split = root.number("val_split", 0.001, 0.9);
  if (root.has("method")) {
    const std::map<std::string, Method> words{{"grid", Method::grid}, {"random", Method::random}, {"tpe", Method::tpe}};
    space.method = word_of(root, "method", words, "grid, random or tpe");
  }
  if (root.has("metric")) {
    const std::map<std::string, Metric> words{{"accuracy", Metric::accuracy}, {"loss", Metric::loss}};
    space.metric = word_of(root, "metric", words, "accuracy or loss");
  }
  if (root.has("seed")) space.seed = read_seed(root);
  if (root.has("trials")) space.budget.trials = root.integer("trials", 1, 1000000);
  if (root.has("images")) space.budget.images = whole(root, "images", 1);
  if (root.has("hours")) space.budget.hours = root.number("hours", 1e-6, 1e6);
  if (root.has("rungs")) space.rungs = read_rungs(root.map("rungs"));
  space.parameters = read_parameters(root);
  root.finish();
  expect_consistent(root, space);
  return space;
}

}  // namespace

Space parse_space(const std::string& text, const std::string& file) {
  if (text.size() > kLargestSpace)
    fail("{}: the file has more than {} bytes, the limit for spaces", file, kLargestSpace);
  try {
    return read_fields(Fields::of_text(file, text, "search", kSpaceExpected), file);
  } catch (const YAML::Exception& error) {
    fail("{}:{}: a value here is not of the kind that is expected; {}", file, error.mark.line + 1, kSpaceExpected);
  }
}

Space read_space(const std::string& file) { return parse_space(read_text(file, kLargestSpace), file); }

}  // namespace convoy
