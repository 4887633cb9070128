// Pictures: colour, blur, edges, size.

#define CHANNELS 3

__global__ void colorToGreyscaleConversion(unsigned char *Pout, unsigned char *Pin, int width, int height)
{
    int Col = threadIdx.x + blockIdx.x * blockDim.x;
    int Row = threadIdx.y + blockIdx.y * blockDim.y;
    if (Col < width && Row < height) {
        int greyOffset = Row * width + Col;
        int rgbOffset = greyOffset * CHANNELS;
        unsigned char r = Pin[rgbOffset];
        unsigned char g = Pin[rgbOffset + 1];
        unsigned char b = Pin[rgbOffset + 2];
        Pout[greyOffset] = (77 * r + 151 * g + 28 * b) >> 8;
    }
}

// A pixel is a uchar4: the colours are inverted, alpha stays.
__global__ void invert_rgba(const uchar4* in, uchar4* out, int pixels)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pixels) return;
    uchar4 p = in[i];
    p = make_uchar4(255 - p.x, 255 - p.y, 255 - p.z, p.w);
    out[i] = p;
}

#ifndef BLUR_SIZE
#define BLUR_SIZE 1
#endif

__global__ void blurKernel(const unsigned char *in, unsigned char *out, int w, int h)
{
    int Col = blockIdx.x * blockDim.x + threadIdx.x;
    int Row = blockIdx.y * blockDim.y + threadIdx.y;
    if (Col < w && Row < h) {
        int pixVal = 0, pixels = 0;
        for (int blurRow = -BLUR_SIZE; blurRow < BLUR_SIZE + 1; ++blurRow) {
            for (int blurCol = -BLUR_SIZE; blurCol < BLUR_SIZE + 1; ++blurCol) {
                int curRow = Row + blurRow;
                int curCol = Col + blurCol;
                if (curRow > -1 && curRow < h && curCol > -1 && curCol < w) {
                    pixVal += in[curRow * w + curCol];
                    pixels++;
                }
            }
        }
        out[Row * w + Col] = (unsigned char)(pixVal / pixels);
    }
}

__constant__ int sobel_x[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};
__constant__ int sobel_y[3][3] = {{-1, -2, -1}, {0, 0, 0}, {1, 2, 1}};

// The gradient's length, edges clamped; the tile with its border is loaded by all threads.
template <int TX, int TY>
__global__ void sobel(const unsigned char* __restrict__ img, float* __restrict__ grad, int w, int h)
{
    __shared__ unsigned char tile[TY + 2][TX + 2];
    const int bx = blockIdx.x * TX - 1, by = blockIdx.y * TY - 1;
    for (int y = threadIdx.y; y < TY + 2; y += TY)
        for (int x = threadIdx.x; x < TX + 2; x += TX)
            tile[y][x] = img[min(max(by + y, 0), h - 1) * w + min(max(bx + x, 0), w - 1)];
    __syncthreads();
    const int x = blockIdx.x * TX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y;
    if (x < w && y < h) {
        int gx = 0, gy = 0;
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j) {
                gx += sobel_x[i][j] * tile[threadIdx.y + i][threadIdx.x + j];
                gy += sobel_y[i][j] * tile[threadIdx.y + i][threadIdx.x + j];
            }
        grad[y * w + x] = sqrtf(float(gx * gx + gy * gy));
    }
}

// Bilinear, align_corners = false.
__global__ void resize_bilinear(const float* src, float* dst, int sh, int sw, int dh, int dw)
{
    const int dx = blockIdx.x * blockDim.x + threadIdx.x, dy = blockIdx.y;
    if (dx >= dw) return;
    const float fx = fmaxf((dx + 0.5f) * sw / dw - 0.5f, 0.f), fy = fmaxf((dy + 0.5f) * sh / dh - 0.5f, 0.f);
    const int x0 = (int)fx, y0 = (int)fy, x1 = min(x0 + 1, sw - 1), y1 = min(y0 + 1, sh - 1);
    const float ax = fx - x0, ay = fy - y0;
    const float top = src[y0 * sw + x0] + ax * (src[y0 * sw + x1] - src[y0 * sw + x0]);
    const float bottom = src[y1 * sw + x0] + ax * (src[y1 * sw + x1] - src[y1 * sw + x0]);
    dst[dy * dw + dx] = top + ay * (bottom - top);
}
