#pragma once
// A list that is filled and cleared again and again. Its elements keep their memory.
//
// An element that emplace_back() returns may hold old values: the caller sets every member.

#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace baton {

template <class T>
class Reused {
  public:
    Reused() = default;
    Reused(std::initializer_list<T> items) : items_(items), size_(items.size()) {}
    Reused(const Reused& other) : items_(other.begin(), other.end()), size_(other.size_) {}
    Reused(Reused&& other) noexcept : items_(std::move(other.items_)), size_(std::exchange(other.size_, 0)) {}
    Reused& operator=(Reused other) noexcept {
        std::swap(items_, other.items_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Reused() = default;

    T& emplace_back() {
        if (size_ == items_.size()) items_.emplace_back();
        return items_[size_++];
    }
    void push_back(T item) { emplace_back() = std::move(item); }
    void clear() { size_ = 0; }
    // Keep the first `size` elements.
    void shorten(std::size_t size) { size_ = size; }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return items_.data(); }
    const T* data() const { return items_.data(); }
    T* begin() { return data(); }
    T* end() { return data() + size_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }
    T& operator[](std::size_t place) { return items_[place]; }
    const T& operator[](std::size_t place) const { return items_[place]; }
    T& front() { return items_.front(); }
    const T& front() const { return items_.front(); }
    T& back() { return items_[size_ - 1]; }
    const T& back() const { return items_[size_ - 1]; }

  private:
    std::vector<T> items_;
    std::size_t size_ = 0;
};

}  // namespace baton
