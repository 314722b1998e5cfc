// Reports the progress of a run as text for people.
#pragma once

#include <memory>

#include "master/report/live_lines.hpp"
#include "train/observer.hpp"

namespace convoy {

/// Makes the observer of make_text_observer() for another output than standard output.
std::unique_ptr<Observer> make_text_observer(TextOutput output);

}  // namespace convoy
