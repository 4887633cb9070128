// What a kernel needs of <assert.h> is included before it.
