#include "cli/help_format.hpp"

#include <sstream>
#include <string>

namespace convoy {
namespace {

constexpr std::size_t kWidth = 79;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kDescription = 26;  ///< the column in which descriptions begin

/// Appends `text` in lines of at most kWidth columns, of which all but the first begin in column `indent`.
void wrap(std::string& out, std::size_t column, const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  bool first = true;
  for (std::string word; words >> word; first = false) {
    if (!first && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += " ";
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += "\n";
}

std::string row(const std::string& name, const std::string& text) {
  std::string out = std::string(kIndent, ' ') + name;
  if (out.size() + 2 > kDescription) {
    out += "\n" + std::string(kDescription, ' ');
  } else {
    out.resize(kDescription, ' ');
  }
  wrap(out, kDescription, text, kDescription);
  return out;
}

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    std::string out;
    wrap(out, 0, app->get_description(), 0);
    return out;
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = make_option_name(option, is_positional);
    const std::string off = "{false}";  // behind the name that turns a flag off
    if (name.ends_with(off)) name.erase(name.size() - off.size());
    return row(name + make_option_opts(option), make_option_desc(option));
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_name(), command->get_description());
  }

  /// The value: its type, or the words that it may be.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string type = option->get_type_name();
    const std::string words = "TEXT:{";
    if (type.starts_with(words)) type.erase(0, words.size() - 1);
    return type.empty() ? "" : " " + type;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    const std::string value = option->get_default_str();
    if (!value.empty() && value != "[]") text += " (default: " + value + ")";
    if (option->get_required() && option->nonpositional()) text += " (required)";
    if (!option->get_envname().empty()) text += " (default: the variable " + option->get_envname() + ")";
    return text;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> make_help_format() { return std::make_shared<HelpFormat>(); }

}  // namespace convoy
