// The text of an answer to an HTTP request, apart from the connection that it came over.
#pragma once

#include <string>

namespace convoy::energy {

/// Returns whether an answer has as many bytes after its header as the header says. Some servers keep the connection
/// open.
bool is_whole_answer(const std::string& answer);

/// Returns what follows the header of an answer with status 200. Throws Error, which names the host and the target of
/// the request, for every other text.
std::string body_of_answer(const std::string& answer, const std::string& host, const std::string& target);

}  // namespace convoy::energy
