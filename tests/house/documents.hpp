// Finds the claims that documents make about the tree: links, named files, programs, and options.
#pragma once

#include <string>
#include <vector>

namespace convoy::house {

/// A claim and its line.
struct Claim {
  std::string text;
  int line = 0;
  bool operator==(const Claim&) const = default;
};

/// The targets of Markdown links that point into the tree, without #anchors. Web addresses and pure anchors are left
/// out.
std::vector<Claim> relative_links(const std::string& markdown);

/// The paths in code (inline or in a block) that start with a folder of the tree and a slash, such as "scripts/demo" or
/// "nets/glyphs.yaml". Patterns are left out: paths with a sign such as * or <, or with NAME, NET or FOLDER.
std::vector<Claim> named_paths(const std::string& markdown);

/// A long option ("--listen") in code, with the program ("convoy-master train") that was last named in code before it.
struct OptionClaim {
  std::string program;
  std::string option;
  int line = 0;
  bool operator==(const OptionClaim&) const = default;
};
std::vector<OptionClaim> named_options(const std::string& markdown);

}  // namespace convoy::house
