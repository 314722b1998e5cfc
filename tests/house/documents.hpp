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

/// The options of tables whose rows begin with an option: "| `--data FOLDER` | train, test | ...". The program is in
/// the heading above. Where the table has a second column "commands", there is a claim for each command of the row.
std::vector<OptionClaim> option_rows(const std::string& markdown);

/// The tag of each fenced block, such as "sh", and the line where the block begins.
std::vector<Claim> block_tags(const std::string& markdown);

/// A row "| `core/` | what is there | what it may include |": the folder without its slash, and the words of the last
/// cell.
struct FolderRow {
  std::string folder;
  std::vector<std::string> may_include;
  int line = 0;
  bool operator==(const FolderRow&) const = default;
};
std::vector<FolderRow> folder_rows(const std::string& markdown);

}  // namespace convoy::house
