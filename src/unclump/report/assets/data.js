// The embedded data, decoded. Arrays of numbers are little-endian bytes in base64.
const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array };
const LEFT_OUT = 65535;  // the coordinate of a row that a table does not have

function decodeArray({ type, bytes }) {
  const text = atob(bytes), decoded = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) decoded[k] = text.charCodeAt(k);
  return new ARRAYS[type](decoded.buffer);
}

function decodeLayout({ title, kind, low, step, axes }) {
  return {
    title, kind,
    axes: axes.map((axis, c) => Float32Array.from(decodeArray(axis), q => q === LEFT_OUT ? NaN : low[c] + q * step)),
  };
}

const decodeColumn = column => ({ ...column, values: decodeArray(column.values) });

function decodeTable(table, shared) {
  const { k, index, angles } = table.neighbours;
  return {
    layouts: table.layouts.map(decodeLayout),
    columns: [...shared, ...table.columns.map(decodeColumn)],
    groups: table.groups.map(decodeArray),
    neighbours: { k, index: decodeArray(index), angles: decodeArray(angles) },
  };
}

function decodeMap(json) {
  const numbers = decodeArray(json.numbers), shared = json.columns.map(decodeColumn);
  const place = new Map();  // of every row on the map, by its number
  for (let k = 0; k < json.shown; k++) place.set(numbers[k], k);
  return {
    shown: json.shown,
    numbers, place,
    hasNames: json.names !== null,
    name: k => json.names === null ? `row ${numbers[k]}` : json.names[k] || "(empty)",
    highlighted: decodeArray(json.highlighted),
    tables: json.tables.map(table => decodeTable(table, shared)),
  };
}

// The neighbours of row k in a table, nearest first: places and angles in degrees.
function neighboursOf({ neighbours: { k: count, index, angles } }, total, k) {
  const found = [];
  for (let j = k * count; j < (k + 1) * count; j++) {
    if (index[j] < total) found.push({ place: index[j], degrees: 180 * (angles[j] / 65535) ** 2 });
  }
  return found;
}

// The rows on the map that have row k among their neighbours.
function rowsNear({ neighbours: { k: count, index } }, k) {
  const found = [];
  for (let j = 0; j < index.length; j++) if (index[j] === k) found.push(Math.floor(j / count));
  return found;
}

const formatDegrees = d => d === 0 ? "0°" : d >= 0.1 ? `${d.toFixed(2)}°` : `${Number(d.toPrecision(2))}°`;
const formatNumber = v => Number.isInteger(v) ? v.toLocaleString("en") : Number(v.toPrecision(4)).toString();
const formatValue = (v, unit) => Number.isNaN(v) ? "none" : unit === "°" ? formatDegrees(v) : formatNumber(v) + unit;
