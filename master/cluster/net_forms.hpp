// The forms of a net among which a run chooses: with the first dense layer on the master, or with this layer shared by
// the members.
#pragma once

#include <optional>

#include "master/commands/options.hpp"
#include "nets/graph/dense_slices.hpp"
#include "plan/calibration.hpp"
#include "plan/choose.hpp"

namespace convoy {

/// Returns the form of the net whose first dense layer the members share, where the options allow it. Throws Error
/// where they ask for it but the net has no such form.
std::optional<DenseSlices> slices_of(const ClusterOptions& options, const Cut& whole);
/// Returns whether the options ask for that form. Otherwise the better form is to be chosen.
bool asks_for_slices(const ClusterOptions& options);

/// Returns the form whose slices a calibration has, if it has any.
std::optional<DenseSlices> slices_of(const Calibration& calibration, const Cut& whole);

/// The words for a plan of that form.
inline constexpr const char* kSharedDense = ", members share the first dense layer";

/// A plan of one of the forms.
struct FormChoice {
  Choice choice;
  bool sliced = false;
};
/// Chooses the better form and its plan. `slices` are those of the calibration, null where it has none. With `dense`,
/// only one form is considered.
FormChoice choose_form(const Cut& whole, const DenseSlices* slices, const Calibration& calibration,
                       const Wishes& wishes, DenseBy dense = DenseBy::automatic);

}  // namespace convoy
