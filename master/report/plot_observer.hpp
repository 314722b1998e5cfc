// An observer that plots the loss and accuracy of a run.
#pragma once

#include <memory>
#include <string>

#include "train/observer.hpp"

namespace convoy {

/// Writes `folder`/curves.gnuplot, and curves.png where gnuplot is installed: after the first epoch, at the end, and
/// now and then in between.
std::unique_ptr<Observer> make_plot_observer(const std::string& folder);

}  // namespace convoy
