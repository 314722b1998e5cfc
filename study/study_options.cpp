#include "study/study_options.hpp"

#include "cli/checks.hpp"
#include "core/exit_code.hpp"
#include "core/stop_signal.hpp"
#include "devices/device_options.hpp"

namespace convoy::study {

void define_study_options(CLI::App& command, StudyOptions& options, std::string& devices) {
  define_device_options(command, devices, options.device_options, "devices, separated by commas; see --list-devices");
  command.add_option("--batch", options.batches, "images in a step, separated by commas")
      ->delimiter(',')
      ->check(whole_number(1, 65536))
      ->capture_default_str();
  command.add_option(
      "--meter", options.meter,
      "meter that measures the energy: a name that --list-meters prints, shelly:ADDRESS, tasmota:ADDRESS, csv:FILE, "
      "or none (default: the best for the whole machine, else for the device)");
  command.add_option("--out", options.out, "folder for the CSV files, the manifest and the plot")
      ->capture_default_str();
  Rules& rules = options.rules;
  command
      .add_option_function<double>(
          "--interval", [&rules](double percent) { rules.interval = percent / 100; },
          "trials end when the half-width of the 95 % interval of J/image is at most this percentage of the mean")
      ->check(number(0.1, 100))
      ->default_str("5");
  command.add_option("--trials", rules.most_trials, "highest number of trials of a setting")
      ->check(whole_number(rules.least_trials, 1000))
      ->capture_default_str();
  command
      .add_option("--trial-seconds", rules.trial_seconds,
                  "shortest length of a trial in s; a trial also lasts until the meter has shown 100 new values")
      ->check(number(1, 3600))
      ->capture_default_str();
  command.add_option("--warm-up", rules.warm_up, "seconds of work before the first trial of a setting")
      ->check(number(0, 3600))
      ->capture_default_str();
  command.add_option("--limit", rules.most_seconds, "seconds after which no further trial of a setting begins")
      ->check(number(1, 1e6))
      ->capture_default_str();
  command
      .add_option_function<double>(
          "--assume-watts", [&rules](double watts) { rules.assumed_watts = watts; },
          "power in W to assume where it cannot be measured; every output marks such joules as assumed")
      ->check(positive_number());
}

int study_here(StudyOptions options, const std::string& devices) {
  isolate_stop_signals();
  options.devices = split_devices(devices);
  const auto machine = energy::this_machine();
  return run_study(options, *machine, catch_stop_signals()) ? kSuccess : kInterrupted;
}

}  // namespace convoy::study
