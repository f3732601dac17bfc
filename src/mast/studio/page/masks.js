// Masks are bytes, one a pixel of the grid: 0 outside, 255 inside, soft between. Nothing here touches the page.

export const LONGEST = 1024; // pixels of a grid's longer side; models work at less

// Okabe and Ito's colours, told apart by people who see fewer; the same as in sheets.py.
export const COLOURS = ["#d55e00", "#0072b2", "#f0e442", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5b2a86"];

export function gridOf(width, height) {
  const scale = Math.min(1, LONGEST / Math.max(width, height));
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

export function share(data) {
  let sum = 0;
  for (let i = 0; i < data.length; i++) sum += data[i];
  return sum / (255 * data.length);
}

// One dab of a round brush into a stroke, which keeps the most of all its dabs: a soft edge stays soft
// however often the brush passes. Returns the rectangle that was touched.
export function dab(stroke, grid, x, y, radius, softness) {
  const left = Math.max(0, Math.floor(x - radius));
  const right = Math.min(grid.width - 1, Math.ceil(x + radius));
  const top = Math.max(0, Math.floor(y - radius));
  const bottom = Math.min(grid.height - 1, Math.ceil(y + radius));
  const inner = radius * (1 - softness);
  const fall = Math.max(1, radius - inner); // a hard brush still has an edge of one pixel
  for (let row = top; row <= bottom; row++) {
    for (let column = left; column <= right; column++) {
      const far = Math.hypot(column - x, row - y);
      if (far >= radius + 0.5) continue;
      const t = Math.min(1, Math.max(0, (radius + 0.5 - far) / fall));
      const value = Math.round(255 * t * t * (3 - 2 * t));
      const at = row * grid.width + column;
      if (value > stroke[at]) stroke[at] = value;
    }
  }
  return { left, top, right, bottom };
}

// Dabs from one point to the next, close enough to be a line.
export function strokeTo(stroke, grid, from, to, radius, softness) {
  const far = Math.hypot(to.x - from.x, to.y - from.y);
  const count = Math.max(1, Math.ceil(far / Math.max(1, radius / 4)));
  let touched = null;
  for (let i = 1; i <= count; i++) {
    const x = from.x + ((to.x - from.x) * i) / count;
    const y = from.y + ((to.y - from.y) * i) / count;
    touched = around(touched, dab(stroke, grid, x, y, radius, softness));
  }
  return touched;
}

export function around(a, b) {
  if (!a || !b) return a ?? b;
  return {
    left: Math.min(a.left, b.left),
    top: Math.min(a.top, b.top),
    right: Math.max(a.right, b.right),
    bottom: Math.max(a.bottom, b.bottom),
  };
}

// What a stroke makes of a mask, inside a rectangle, written into `into`.
export function apply(into, before, stroke, erase, grid, rect) {
  for (let row = rect.top; row <= rect.bottom; row++) {
    for (let at = row * grid.width + rect.left; at <= row * grid.width + rect.right; at++) {
      into[at] = erase ? Math.min(before[at], 255 - stroke[at]) : Math.max(before[at], stroke[at]);
    }
  }
}

export function union(a, b) {
  return a.map((value, i) => Math.max(value, b[i]));
}

// What is left of `other` where `owner` has taken its place; the same object where nothing changes.
export function giveWay(other, owner) {
  let made = null;
  for (let i = 0; i < other.length; i++) {
    if (other[i] > 255 - owner[i]) (made ??= other.slice())[i] = 255 - owner[i];
  }
  return made ?? other;
}

export function rest(masks, grid) {
  const left = new Uint8Array(grid.width * grid.height).fill(255);
  for (const mask of masks) for (let i = 0; i < left.length; i++) left[i] = Math.max(0, left[i] - mask[i]);
  return left;
}

function surface(grid) {
  const canvas = new OffscreenCanvas(grid.width, grid.height);
  return { canvas, pen: canvas.getContext("2d", { willReadFrequently: true }) };
}

function channel(pen, grid, offset) {
  const { data } = pen.getImageData(0, 0, grid.width, grid.height);
  const made = new Uint8Array(grid.width * grid.height);
  for (let i = 0; i < made.length; i++) made[i] = data[4 * i + offset];
  return made;
}

// The inside of a polygon; softness in pixels of the grid.
export function polygon(points, grid, softness) {
  const { pen } = surface(grid);
  if (softness > 0 && "filter" in pen) pen.filter = `blur(${softness}px)`;
  pen.beginPath();
  points.forEach((point, i) => (i ? pen.lineTo(point.x, point.y) : pen.moveTo(point.x, point.y)));
  pen.closePath();
  pen.fill();
  return channel(pen, grid, 3);
}

export function fromImage(image, grid) {
  const { pen } = surface(grid);
  pen.fillStyle = "black";
  pen.fillRect(0, 0, grid.width, grid.height);
  pen.drawImage(image, 0, 0, grid.width, grid.height);
  return channel(pen, grid, 0);
}

// A grey PNG that any program reads as a mask.
export async function toPng(data, grid) {
  const { canvas, pen } = surface(grid);
  const pixels = new ImageData(grid.width, grid.height);
  for (let i = 0; i < data.length; i++) pixels.data.fill(data[i], 4 * i, 4 * i + 3);
  for (let i = 3; i < pixels.data.length; i += 4) pixels.data[i] = 255;
  pen.putImageData(pixels, 0, 0);
  return canvas.convertToBlob({ type: "image/png" });
}
