#include "energy/http_answer.hpp"

#include <algorithm>
#include <cctype>

#include "core/text.hpp"
#include "energy/machine.hpp"

namespace convoy::energy {

bool is_whole_answer(const std::string& answer) {
  const auto body = answer.find("\r\n\r\n");
  if (body == std::string::npos) return false;
  std::string header = answer.substr(0, body + 2);
  std::ranges::transform(header, header.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string name = "\r\ncontent-length:";
  const auto place = header.find(name);
  if (place == std::string::npos) return false;
  const auto from = place + name.size();
  try {
    return static_cast<double>(answer.size() - body - 4) >=
           number_in(header.substr(from, header.find('\r', from) - from), name);
  } catch (const Error&) {
    return false;
  }
}

std::string body_of_answer(const std::string& answer, const std::string& host, const std::string& target) {
  const auto body = answer.find("\r\n\r\n");
  const std::string line = answer.substr(0, answer.find("\r\n"));
  if (!line.starts_with("HTTP/1.") || body == std::string::npos) {
    fail("{} does not speak HTTP; it answers '{}'", host, printable(answer, 40));
  }
  const std::string status = line.substr(std::min<std::size_t>(9, line.size()), 3);
  if (status == "401") fail("{} asks for a password; turn its authentication off", host);
  if (status != "200") fail("{} answers '{}' to {}", host, printable(line, 60), target);
  return answer.substr(body + 4);
}

}  // namespace convoy::energy
