// Which tile of a matrix comes when: tiles that are worked on at the same time share rows and columns, which the L2 cache
// keeps.
#pragma once

struct Place {
    int down, across;  // in tiles
};

// GROUP tiles below each other, then as many to the right of them, and so on to the edge; then the next GROUP rows of tiles.
template <int GROUP>
__device__ inline Place tile_at(int number, int down, int across)
{
    const int first = number / (GROUP * across) * GROUP, height = down - first < GROUP ? down - first : GROUP;
    return {first + number % (GROUP * across) % height, number % (GROUP * across) / height};
}
