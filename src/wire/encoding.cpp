#include "wire/encoding.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/text.hpp"
#include "baton/error.hpp"

namespace baton::wire {

namespace {

const unsigned char* raw(std::string_view bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(std::string& bytes) {
    return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    append_base64(text, bytes);
    return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    // EVP_DecodeBlock takes padding anywhere, and leaves out white space at both ends.
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (text.substr(0, text.size() - padding).find_first_not_of(alphabet) != std::string_view::npos)
        return std::nullopt;
    if (text.empty()) return std::string();
    std::string bytes(text.size() / 4 * 3, '\0');
    if (EVP_DecodeBlock(raw(bytes), raw(text), static_cast<int>(text.size())) < 0) return std::nullopt;
    bytes.resize(bytes.size() - padding);  // EVP_DecodeBlock counts it as zero bytes
    return bytes;
}

std::string sha256(std::string_view bytes) {
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned size = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), raw(digest), &size, EVP_sha256(), nullptr) != 1)
        throw Error("SHA-256 failed");
    digest.resize(size);
    return digest;
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned size = 0;
    if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), raw(bytes), bytes.size(), raw(digest),
             &size) == nullptr)
        throw Error("HMAC-SHA-256 failed");
    digest.resize(size);
    return digest;
}

}  // namespace baton::wire
