// Which tiles of queries a block has, and which tiles of keys those see.
#pragma once

#include "attention.cuh"

constexpr int QUERIES = 128;  // of a tile

// The tiles of queries of a block, one after the other. Where they see different numbers of keys, the last tile of a head, which
// sees most, and the first are one piece of work, and so on to its middle: every piece takes as long.
struct Walk {
    int tiles, pieces, all, piece, tile;
    bool paired, second = false;

    __device__ Walk(int heads, int Q, bool paired) : paired(paired)
    {
        tiles = (Q + QUERIES - 1) / QUERIES;
        pieces = paired ? (tiles + 1) / 2 : tiles;
        all = heads * pieces;
        piece = blockIdx.x;
        tile = tiles - 1 - piece % pieces;
    }
    __device__ bool at_end() const { return piece >= all; }
    __device__ int head() const { return piece / pieces; }
    __device__ void advance()
    {
        const int other = piece % pieces;
        if (paired && !second && other != tile) {
            second = true;
            tile = other;
        } else {
            second = false;
            piece += gridDim.x;
            tile = tiles - 1 - piece % pieces;
        }
    }
};

// The tiles of keys that a tile of queries sees, from `first` to before `end`.
template <int KEYS>
struct Seen {
    int first, end;

    __device__ Seen(const Sizes& n, int begin)
    {
        first = n.begin_of_keys(begin) / KEYS;
        end = max((n.end_of_keys(min(begin + QUERIES, n.Q) - 1) + KEYS - 1) / KEYS, first);
    }
    __device__ int count() const { return end - first; }
};
