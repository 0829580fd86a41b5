// One contestant of bench/infer.py: ONNX Runtime runs a model on an .npy file some times, saves the output and prints what it took, as JSON.
//     node ort.js FOLDER-OF-THE-PACKAGE MODEL.onnx X.npy Y.npy RUNS THREADS
'use strict';
const fs = require('fs');
const [folder, model, input, output, runs, threads] = process.argv.slice(2);
const ort = require(require('path').resolve(folder, 'node_modules', 'onnxruntime-node'));

const TYPES = { '<f4': ['float32', Float32Array], '<i8': ['int64', BigInt64Array] };

function resident() {
  const status = fs.readFileSync('/proc/self/status', 'utf8');
  const kib = (key) => 1024 * Number(new RegExp(key + ':\\s+(\\d+)').exec(status)[1]);
  return { now: kib('VmRSS'), most: kib('VmHWM') };
}

function readNpy(path) {
  const file = fs.readFileSync(path);
  const size = file.readUInt16LE(8);
  const header = file.toString('latin1', 10, 10 + size);
  const [type, Kind] = TYPES[/'descr': *'([^']*)'/.exec(header)[1]];
  const dims = /'shape': *\(([^)]*)\)/.exec(header)[1].split(',').map((d) => d.trim()).filter((d) => d).map(Number);
  const bytes = new Uint8Array(file.subarray(10 + size)); // a copy, so that it is aligned
  return new ort.Tensor(type, new Kind(bytes.buffer), dims);
}

function writeNpy(path, tensor) {
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${tensor.dims.join(', ')},), }`;
  header = header.padEnd(64 * Math.ceil((header.length + 11) / 64) - 11) + '\n';
  const start = Buffer.alloc(10);
  start.write('\x93NUMPY\x01\x00', 'latin1');
  start.writeUInt16LE(header.length, 8);
  const data = tensor.data;
  fs.writeFileSync(path, Buffer.concat([start, Buffer.from(header, 'latin1'), Buffer.from(data.buffer, data.byteOffset, data.byteLength)]));
}

async function main() {
  const idle = resident().now;
  const session = await ort.InferenceSession.create(model, { intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: 'all' });
  const feeds = { [session.inputNames[0]]: readNpy(input) };
  const seconds = [];
  let last;
  for (let i = 0; i < Number(runs); i++) {
    const begin = process.hrtime.bigint();
    last = await session.run(feeds);
    seconds.push(Number(process.hrtime.bigint() - begin) / 1e9);
  }
  const peak = resident().most; // before the output is copied
  writeNpy(output, last[session.outputNames[0]]);
  console.log(JSON.stringify({ seconds, idle_bytes: idle, peak_rss_bytes: peak, version: ort.env.versions.node }));
}

main().catch((e) => {
  console.error(String(e));
  process.exit(1);
});
