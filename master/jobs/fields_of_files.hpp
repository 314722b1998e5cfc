// Fields that the files of searches and of jobs have in common.
#pragma once

#include <cstdint>
#include <string>

#include "nets/file/fields.hpp"

namespace convoy {

/// The field `seed`, a whole number from 0 to 2^64 - 1. Throws Error naming file and line.
std::uint64_t read_seed(Fields& fields);
/// A path, which is not empty. Throws Error naming file and line.
std::string path_in(Fields& fields, const std::string& field);
/// Whether a text is OWNER.FIELD or OWNER.FIELD.FIELD, as --set takes it.
bool is_field_name(const std::string& text);

/// The path of a file that `file` names: beside `file`, or else from the current folder.
std::string path_beside(const std::string& file, const std::string& path);

}  // namespace convoy
