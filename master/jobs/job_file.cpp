#include "master/jobs/job_file.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "core/files.hpp"
#include "master/jobs/fields_of_files.hpp"

namespace convoy {
namespace {

constexpr std::size_t kLargestList = std::size_t{1} << 20;
constexpr std::size_t kMostJobs = 1000;
constexpr std::size_t kMostSet = 256;
constexpr int kMostOfAGroup = 64;
constexpr const char* kJobsExpected =
    "expected a list of jobs, as in `jobs: [{name: small, net: nets/glyphs.yaml, set: {conv1.filters: 4}}]`";
/// The folder in the jobs' folder that holds their nets.
constexpr const char* kNotAName = "nets";

/// Replaces what `set` has for the field, or adds it.
void put_override(Overrides& set, const std::string& field, const std::string& value) {
  std::erase_if(set, [&](const std::string& each) { return each.starts_with(field + "="); });
  set.push_back(field + "=" + value);
}

void read_set(Fields& fields, Overrides& set) {
  constexpr std::size_t kLongestValue = 256;
  const YAML::Node map = fields.node("set");
  if (!map.IsMap() || map.size() > kMostSet) {
    fields.fail("set", fmt::format("is no map of at most {} fields, as in {{conv1.filters: 4}}", kMostSet));
  }
  const Fields inner = fields.map("set");
  for (const auto& entry : map) {
    const std::string field = entry.first.Scalar();
    if (!is_field_name(field)) {
      inner.fail(field, "is no field of a net; expected OWNER.FIELD, as in conv1.filters or training.learning_rate");
    }
    if (!entry.second.IsScalar() || entry.second.Scalar().size() > kLongestValue) {
      inner.fail(field,
                 fmt::format("is no text of at most {} bytes; write a list or a map in quotes, as --set takes it",
                             kLongestValue));
    }
    if (field == "training.epochs")
      inner.fail(field, "is set by the field epochs of a job; write epochs: N beside set");
    put_override(set, field, entry.second.Scalar());
  }
}

/// The fields that a job may have, and the file for all jobs.
void read_common(Fields& fields, ListedJob& job) {
  if (fields.has("net")) job.net = path_in(fields, "net");
  if (fields.has("data")) job.data = path_in(fields, "data");
  if (fields.has("seed")) job.seed = read_seed(fields);
  if (fields.has("machines")) job.machines = fields.integer("machines", 1, kMostOfAGroup);
  if (fields.has("set")) read_set(fields, job.set);
  if (fields.has("epochs")) {
    put_override(job.set, "training.epochs", std::to_string(fields.integer("epochs", 1, 1000000)));
  }
}

std::string read_name(Fields& fields) {
  const std::string name = fields.word("name");
  if (name == kNotAName) fields.fail("name", fmt::format("is {}, the folder of the nets; choose another", name));
  if (name.front() == '-') fields.fail("name", fmt::format("is {}, which begins like an option; choose another", name));
  return name;
}

ListedJob read_job(Fields fields, const ListedJob& common) {
  ListedJob job = common;
  job.line = fields.line();
  job.name = read_name(fields);
  read_common(fields, job);
  fields.finish();
  if (job.net.empty()) fields.fail(fmt::format("{} has no net; give net: FILE, here or for all jobs", job.name));
  return job;
}

JobList read_list(Fields root, const std::string& file) {
  JobList list{.file = file, .jobs = {}};
  ListedJob common;
  read_common(root, common);
  std::set<std::string> names;
  for (Fields& each : root.maps("jobs", kMostJobs, "job")) {
    ListedJob job = read_job(each, common);
    if (!names.insert(job.name).second) {
      each.fail("name", fmt::format("is {}, the name of another job; give each job a name of its own", job.name));
    }
    list.jobs.push_back(std::move(job));
  }
  root.finish();
  if (list.jobs.empty()) root.fail("jobs", "is empty; name a job, as in [{name: small, net: nets/glyphs.yaml}]");
  return list;
}

}  // namespace

JobList parse_jobs(const std::string& text, const std::string& file) {
  if (text.size() > kLargestList) fail("{}: the file has more than {} bytes, the limit for jobs", file, kLargestList);
  try {
    return read_list(Fields::of_text(file, text, "jobs", kJobsExpected), file);
  } catch (const YAML::Exception& error) {
    fail("{}:{}: a value here is not of the kind that is expected; {}", file, error.mark.line + 1, kJobsExpected);
  }
}

JobList read_jobs(const std::string& file) { return parse_jobs(read_text(file, kLargestList), file); }

std::string to_yaml(const JobList& list) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "jobs" << YAML::Value << YAML::BeginSeq;
  for (const ListedJob& job : list.jobs) {
    out << YAML::BeginMap;
    const auto field = [&](const char* name, const std::string& value) {
      out << YAML::Key << name << YAML::Value << YAML::DoubleQuoted << value;
    };
    field("name", job.name);
    field("net", job.net);
    field("data", job.data);
    field("seed", std::to_string(job.seed));
    if (job.machines > 1) field("machines", std::to_string(job.machines));
    Overrides set = job.set;
    const auto epochs =
        std::ranges::find_if(set, [](const std::string& each) { return each.starts_with("training.epochs="); });
    if (epochs != set.end()) {
      field("epochs", epochs->substr(epochs->find('=') + 1));
      set.erase(epochs);
    }
    if (!set.empty()) {
      out << YAML::Key << "set" << YAML::Value << YAML::BeginMap;
      for (const std::string& each : set) {
        const std::size_t equals = each.find('=');
        field(each.substr(0, equals).c_str(), each.substr(equals + 1));
      }
      out << YAML::EndMap;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

std::string place_of(const JobList& list, const ListedJob& job) {
  return fmt::format("{}:{}: job {}", list.file, job.line, job.name);
}

}  // namespace convoy
