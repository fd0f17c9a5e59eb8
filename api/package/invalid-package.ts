/** Creates problems for invalid packages, which name every location. */
import { formatLocation, Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';

/** Maximum number of locations in one response. */
const FAULTS_MAX = 50;

/** `locations` contain file, line and column if they are known. */
export function invalidPackage(detail: string, locations: readonly ProblemLocation[] = []): Problem {
  return new Problem('invalid_package', detail, { errors: locations.slice(0, FAULTS_MAX) });
}

/** A problem with one location, which becomes its detail. */
export function invalidAt(location: ProblemLocation): Problem {
  return invalidPackage(formatLocation(location), [location]);
}

/** A problem with several locations; its detail is the first, and the number of the others. */
export function invalidAll(locations: readonly ProblemLocation[]): Problem {
  const [first] = locations;
  if (!first) throw new Error('a refusal needs a reason');
  const more = locations.length > 1 ? ` (and ${locations.length - 1} more, see errors)` : '';
  return invalidPackage(`${formatLocation(first)}${more}`, locations);
}
