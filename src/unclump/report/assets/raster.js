// Discs drawn by hand into the pixels of a canvas: 50,000 of them take a few milliseconds, on any machine.
const PAD = 24;  // pixels around the visible ones, so that no disc needs clipping
const SUBPIXELS = 4;  // positions within a pixel, each way, so that dots glide rather than jump

// The pixels of a disc and the share of each that it covers, for each position within a pixel.
function makeStamps(radius) {
  const reach = Math.ceil(radius + 1), stamps = [];
  for (let v = 0; v < SUBPIXELS; v++) {
    for (let u = 0; u < SUBPIXELS; u++) {
      const dx = [], dy = [], cover = [];
      for (let y = -reach; y <= reach; y++) {
        for (let x = -reach; x <= reach; x++) {
          const far = Math.hypot(x + 0.5 - (u + 0.5) / SUBPIXELS, y + 0.5 - (v + 0.5) / SUBPIXELS);
          const share = Math.max(0, Math.min(1, radius + 0.5 - far));
          if (share > 0.02) { dx.push(x); dy.push(y); cover.push(share); }
        }
      }
      stamps.push({ dx, dy, cover: Float32Array.from(cover) });
    }
  }
  return stamps;
}

// A brush of one radius and opacity for rasters of one width.
function makeBrush(raster, radius, opacity) {
  return makeStamps(Math.min(radius, PAD - 8)).map(({ dx, dy, cover }) => ({
    offsets: Int32Array.from(dx, (x, j) => 4 * (dy[j] * raster.width + x)),
    weights: Int32Array.from(cover, share => Math.round(256 * share * opacity)),
  }));
}

function makeRaster(width, height) {
  const image = new ImageData(width + 2 * PAD, height + 2 * PAD);
  return { image, pixels: image.data, words: new Uint32Array(image.data.buffer), width: image.width, visible: [width, height] };
}

function clearRaster(raster, [r, g, b]) {
  raster.words.fill((255 << 24 | b << 16 | g << 8 | r) >>> 0);
}

// A disc at (x, y), in pixels from the visible corner. Those wholly outside are skipped.
function drawDisc(raster, brush, x, y, r, g, b) {
  const left = Math.floor(x), top = Math.floor(y);
  if (!(left > -4 && top > -4 && left < raster.visible[0] + 4 && top < raster.visible[1] + 4)) return;
  const { offsets, weights } = brush[Math.floor((y - top) * SUBPIXELS) * SUBPIXELS + Math.floor((x - left) * SUBPIXELS)];
  const pixels = raster.pixels, corner = 4 * ((top + PAD) * raster.width + left + PAD);
  for (let j = 0; j < offsets.length; j++) {
    const at = corner + offsets[j], w = weights[j];
    pixels[at] += (r - pixels[at]) * w >> 8;
    pixels[at + 1] += (g - pixels[at + 1]) * w >> 8;
    pixels[at + 2] += (b - pixels[at + 2]) * w >> 8;
  }
}

const showRaster = (raster, context) => context.putImageData(raster.image, -PAD, -PAD);
