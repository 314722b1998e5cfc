// Checksums in safetensors files, by which damage is found when a file is read.
//
// Convoy's files have them in __metadata__, where other programs pass over them, as XXH3 of 64 bits in 16 hexadecimal
// digits: "xxh3_64:NAME" is that of the bytes of tensor NAME, and "xxh3_64" that of the header. The header's checksum
// is over its contents, and not over its text, so that it holds after another program has written the same contents in
// another way: for each other entry of the metadata, in the order of their keys, and then for each tensor, in the order
// of their names, the bytes of
//     KEY-BYTES ":" KEY VALUE-BYTES ":" VALUE
//     NAME-BYTES ":" NAME DTYPE " " DIMS " " BEGIN " " END "\n"
// where numbers are decimal and DIMS are separated by commas.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "model/safetensors_header.hpp"

namespace convoy {

/// Sets the checksum of a tensor with these bytes.
void set_checksum(SafetensorsHeader& header, const std::string& tensor, std::span<const std::byte> bytes);
/// Sets the checksum of the header. Call it when all else in the header is final.
void seal(SafetensorsHeader& header);

/// Whether the header has checksums.
bool has_checksums(const SafetensorsHeader& header);
/// Throws Error naming `file` unless the header has the checksum of its contents and one for each tensor.
void check_header(const SafetensorsHeader& header, const std::string& file);
/// Throws Error naming `file` and the tensor unless the bytes have the tensor's checksum.
void check_tensor(const SafetensorsHeader& header, const TensorEntry& tensor, std::span<const std::byte> bytes,
                  const std::string& file);
/// Removes the checksums from the metadata.
void remove_checksums(SafetensorsHeader& header);

}  // namespace convoy
