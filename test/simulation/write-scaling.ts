/**
 * Measures clusters of up to 1,000 supervisors with 10 million installations, writes the plot of `docs/scaling.md`, and
 * prints its table. Run `sh deploy/node.sh test/simulation/write-scaling.ts [--seed 20260101]`.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { createPopulation, INSTALLATIONS, measureScaling, RUN_MS, SIZES } from './scaling.ts';
import { drawScaling } from './scaling-plot.ts';

const { values } = parseArgs({ options: { seed: { type: 'string', default: '20260101' } } });
const seed = Number(values.seed);
const population = createPopulation(INSTALLATIONS, seed);
console.log(`seed ${seed}, ${INSTALLATIONS} installations of ${population.shardsOfCalls.length} accounts`);
const points = SIZES.map((supervisors) => measureScaling(population, supervisors, RUN_MS, seed));
const figure = (value: number): string => Math.round(value).toLocaleString('en');
for (const point of points) {
  const cells = [
    figure(point.supervisors),
    `${figure(point.idleStatements)} / ${figure(point.faultyStatements)}`,
    `${figure(point.idleRows)} / ${figure(point.faultyRows)}`,
    point.recoveryP99Ms === null ? '–' : `${(point.recoveryP99Ms / 1_000).toFixed(1)} s`,
    point.imbalance.toFixed(2),
    point.hooks.toFixed(1),
    `${Math.round(point.forwardedShare * 100)} %`,
    String(point.violations),
  ];
  console.log(`| ${cells.join(' | ')} |`);
}
const title = `Cost of a cluster by the number of its supervisors (simulated, seed ${seed})`;
await writeFile(new URL('../../docs/pictures/scaling.svg', import.meta.url), drawScaling(points, title));
