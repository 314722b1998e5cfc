#include "nets/file/read_teaching.hpp"

#include <algorithm>

namespace convoy {
namespace {

constexpr std::size_t kMostTeachers = 64;
constexpr std::size_t kLongestTeacher = 4096;
constexpr const char* kTeacherExpected = "the folder of a run, weights with their net, or an ONNX model";

std::vector<std::string> read_teachers(Fields& fields) {
  const YAML::Node node = fields.node("teacher");
  std::vector<std::string> teachers;
  if (node.IsScalar()) teachers.push_back(node.Scalar());
  if (!node.IsScalar() && (!node.IsSequence() || node.size() == 0 || node.size() > kMostTeachers)) {
    fields.fail("teacher", fmt::format("is no text and no list of 1 to {} texts; expected {}, or several of them",
                                       kMostTeachers, kTeacherExpected));
  }
  if (node.IsSequence()) {
    for (const auto& item : node) teachers.push_back(item.IsScalar() ? item.Scalar() : "");
  }
  for (const std::string& teacher : teachers) {
    if (teacher.empty() || teacher.size() > kLongestTeacher) {
      fields.fail("teacher", fmt::format("holds {}; expected {}",
                                         teacher.empty() ? "no path" : "a path that is too long", kTeacherExpected));
    }
    if (std::ranges::count(teachers, teacher) > 1) {
      fields.fail("teacher", fmt::format("names '{}' twice; name each teacher once", teacher));
    }
  }
  return teachers;
}

}  // namespace

void read_cycles(Fields& fields, TrainingOptions& options) {
  const bool given = fields.has("cycles");
  if (options.schedule.kind != Schedule::Kind::snapshots) {
    if (given) fields.fail("cycles", "has a meaning only beside schedule: {kind: snapshots}; leave it out");
    return;
  }
  if (!given) fields.fail("cycles", "is missing; the schedule snapshots needs it, as in cycles: 5");
  options.cycles = fields.integer("cycles", 1, 1000000);
  const int epochs = options.epochs;
  if (epochs % options.cycles != 0) {
    fields.fail("cycles",
                fmt::format("is {}, but the {} epochs are no multiple of it; train for {} epochs, or give other cycles",
                            options.cycles, epochs, (epochs / options.cycles + 1) * static_cast<long>(options.cycles)));
  }
  const int length = epochs / options.cycles;
  if (options.schedule.warm_up >= length) {
    fields.fail("schedule", fmt::format("has a warm_up of {} epochs; it must be shorter than a cycle, which has {}",
                                        options.schedule.warm_up, length));
  }
  if (options.patience > 0) {
    fields.fail("patience",
                "cannot stand beside the schedule snapshots, since accuracy falls when a cycle begins; leave it out");
  }
}

Teaching read_teaching(Fields& fields) {
  Teaching teaching;
  if (fields.has("teacher")) teaching.teachers = read_teachers(fields);
  for (const char* field : {"temperature", "mix"}) {
    if (fields.has(field) && !teaching.any()) {
      fields.fail(field, "has a meaning only beside teacher; name a teacher, or leave it out");
    }
  }
  if (fields.has("temperature")) teaching.temperature = fields.number("temperature", 0.01, 1000.0);
  if (fields.has("mix")) teaching.mix = fields.number("mix", 0.0, 1.0);
  return teaching;
}

}  // namespace convoy
