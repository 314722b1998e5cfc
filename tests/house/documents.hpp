// What the documents claim about the tree: files they link to or name, programs, and options.
#pragma once

#include <string>
#include <vector>

namespace convoy::house {

/// A claim and the line it stands in.
struct Claim {
  std::string text;
  int line = 0;
  bool operator==(const Claim&) const = default;
};

/// Targets of Markdown links that point into the tree, without #anchors. Web addresses and pure anchors are
/// left out.
std::vector<Claim> relative_links(const std::string& markdown);

/// Everything in code (inline or in a block) that starts with a folder of the tree and a slash: "scripts/demo",
/// "nets/glyphs.yaml". Left out are paths that stand for many: with a sign such as * or <, or with NAME, NET or FOLDER
/// in them.
std::vector<Claim> named_paths(const std::string& markdown);

/// Long options ("--listen") in code, with the program ("convoy-master train") whose heading or command line
/// they stand under. A table belongs to the program named last, in code, before it.
struct OptionClaim {
  std::string program;
  std::string option;
  int line = 0;
  bool operator==(const OptionClaim&) const = default;
};
std::vector<OptionClaim> named_options(const std::string& markdown);

}  // namespace convoy::house
