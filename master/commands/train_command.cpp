#include "core/output.hpp"
#include "master/commands/training_run.hpp"
#include "master/report/record_observers.hpp"
#include "master/report/text_observer.hpp"

namespace convoy {

int train_command(const TrainOptions& options, const std::string& command_line) {
  go_on_without_output("training goes on, and events.jsonl in the run folder tells how");
  Observers observers;
  observers.push_back(options.net.format == "json" ? make_json_observer(stdout, paced_device(options.net))
                                                   : make_text_observer());
  return TrainingRun(options, command_line, {.observers = std::move(observers)}).run();
}

}  // namespace convoy
