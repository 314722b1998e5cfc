// Reports the progress of a run as text for people.
#pragma once

#include <memory>

#include "master/report/live_lines.hpp"
#include "train/observer.hpp"

namespace convoy {

/// Prints text for people to standard output: live lines on a terminal, plain lines otherwise.
std::unique_ptr<Observer> make_text_observer();
/// Makes the same observer for another output.
std::unique_ptr<Observer> make_text_observer(TextOutput output);

}  // namespace convoy
