// What a run tells of itself, as text for people.
#pragma once

#include <memory>

#include "master/report/live_lines.hpp"
#include "train/observer.hpp"

namespace convoy {

/// make_text_observer() for another place than standard output.
std::unique_ptr<Observer> make_text_observer(TextOutput output);

}  // namespace convoy
