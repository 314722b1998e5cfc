#include "master/commands/jobs_to_do.hpp"

#include <filesystem>
#include <utility>

#include "core/files.hpp"
#include "master/commands/jobs_options.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/teachers.hpp"
#include "master/commands/training_run.hpp"
#include "master/jobs/fields_of_files.hpp"
#include "master/report/run_folder.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

/// Throws what `work` throws, with the place of the job in front.
template <class Work>
auto at_job(const JobList& list, const ListedJob& job, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    fail("{}: {}", place_of(list, job), error.what());
  }
}

std::string net_path(const std::string& name) { return fmt::format("nets/{}.yaml", name); }

/// The options of a job on the device of this name.
TrainOptions options_of(const JobsOptions& options, const std::string& device, const JobList& list,
                        const ListedJob& job) {
  TrainOptions train = options.train;
  train.net.device = device;
  train.net.net = path_beside(list.file, job.net);
  train.net.set = job.set;
  train.net.data = place_of_data(job.data == "glyphs" ? job.data : path_beside(list.file, job.data));
  train.net.seed = job.seed;
  train = for_one_job(std::move(train), options.master_jobs);
  train.given["data"] = train.net.data;
  train.given["seed"] = std::to_string(job.seed);
  return train;
}

Net net_of(const TrainOptions& options, const JobList& list, const ListedJob& job) {
  std::error_code ignored;
  if (!fs::exists(options.net.net, ignored)) {
    fail("net is {}, which is neither beside {} nor in the current folder; give the path of a net file", job.net,
         list.file);
  }
  Net net = with_absolute_teachers(load_net(options));
  net.run.clear();
  return net;
}

/// Throws Error if a group of slaves cannot train the job.
void expect_group(const JobsOptions& options, const JobToDo& job) {
  if (job.machines == 1) return;
  if (!job.has_trunk) {
    fail("machines is {}, but slaves share only convolutions, and the net has none; leave machines out", job.machines);
  }
  const int slaves = options.train.cluster.slaves;
  if (!options.resume && job.machines > slaves) {
    fail("machines is {}, but {}; give --slaves {}, or fewer machines", job.machines,
         slaves == 0 ? "no slaves are waited for" : fmt::format("--slaves {} waits for fewer", slaves), job.machines);
  }
}

void expect_trains(const JobToDo& job) {
  require_fits(*job.data, job.net);
  require_labels(*job.data, job.net);
  const int images = job.data->training.count();
  if (job.net.training.batch > images) {
    fail("training.batch is {}, but {} has only {} training images; give a smaller batch", job.net.training.batch,
         job.options.net.data, images);
  }
}

}  // namespace

void train_in(const std::string& folder, JobToDo& job) {
  job.options.out = folder + "/" + job.name;
  job.options.net.net = folder + "/" + net_path(job.name);
  job.options.net.set.clear();
  job.options.net.batch = 0;
}

JobList list_of(const JobsOptions& options) {
  if (!paced_device(options.train.net).empty()) {
    fail("--device {} has no meaning for jobs: a paced device computes nothing that could be kept; leave it out",
         options.train.net.device);
  }
  if (options.master_jobs == 0 && options.train.cluster.slaves == 0) {
    fail("--master-jobs 0 without slaves leaves no machine to train on; give --slaves N, or leave it out");
  }
  return read_jobs(options.file);
}

std::vector<JobToDo> prepare_jobs(const JobsOptions& options, const JobList& list,
                                  const std::function<bool(const std::string& job)>& finished) {
  std::vector<JobToDo> jobs;
  OpenedData opened;
  const std::string device = device_of_jobs(options.train.net);
  for (const ListedJob& listed : list.jobs) {
    at_job(list, listed, [&] {
      JobToDo job{.name = listed.name, .options = options_of(options, device, list, listed), .net = {}, .data = {}};
      job.net = net_of(job.options, list, listed);
      job.measure_net();
      job.machines = listed.machines;
      expect_group(options, job);
      job.over = finished(job.name);
      if (!job.over) {
        job.data = opened.open(job.options.net, job.net);
        expect_trains(job);
        job.steps = static_cast<long>(job.net.training.epochs) * (job.data->training.count() / job.net.training.batch);
      }
      jobs.push_back(std::move(job));
    });
  }
  return jobs;
}

std::string make_jobs_folder(const JobsOptions& options, const JobList& list, const std::vector<JobToDo>& jobs) {
  const std::string& out = options.train.out;
  std::error_code ignored;
  for (const char* name : {kListOfJobs, kBookOfJobs}) {
    if (out.empty() || !fs::exists(out + "/" + name, ignored)) continue;
    fail("{} already holds jobs; give --resume {} to go on with them, or choose another folder with --out", out, out);
  }
  const std::string folder = make_run_folder(out, "jobs");
  fs::create_directories(folder + "/nets", ignored);
  JobList kept{.file = folder + "/" + kListOfJobs, .jobs = {}};
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    write_text(folder + "/" + net_path(jobs[j].name), to_yaml(jobs[j].net));
    kept.jobs.push_back({.name = jobs[j].name,
                         .net = net_path(jobs[j].name),
                         .data = jobs[j].options.net.data,
                         .seed = list.jobs[j].seed,
                         .machines = list.jobs[j].machines});
  }
  // The list comes last: a folder that has it is complete.
  write_jobs_options(folder, options.train.given);
  write_text(kept.file, to_yaml(kept));
  return folder;
}

void remove_jobs_folder(const std::string& folder, const std::list<JobToDo>& jobs) {
  std::error_code ignored;
  for (const char* name : {kListOfJobs, kOptionsOfJobs, kBookOfJobs}) fs::remove(fs::path(folder) / name, ignored);
  for (const JobToDo& job : jobs) fs::remove(job.options.net.net, ignored);
  for (const fs::path& each : {fs::path(folder) / "nets", fs::path(folder)}) {
    if (fs::is_empty(each, ignored)) fs::remove(each, ignored);
  }
}

}  // namespace convoy
