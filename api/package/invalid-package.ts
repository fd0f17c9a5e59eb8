/** Creates the problems of invalid packages, with the locations of the faults. */
import { formatLocation, Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';

/** Maximum number of locations in one response. */
const FAULTS_MAX = 50;

/** @param locations with line and column where they are known */
export function invalidPackage(detail: string, locations: readonly ProblemLocation[] = []): Problem {
  return new Problem('invalid_package', detail, { errors: locations.slice(0, FAULTS_MAX) });
}

/** Creates a problem with one location. The detail describes it. */
export function invalidAt(location: ProblemLocation): Problem {
  return invalidPackage(formatLocation(location), [location]);
}

/** Creates a problem with several locations. The detail describes the first one and counts the others. */
export function invalidAll(locations: readonly ProblemLocation[]): Problem {
  const [first] = locations;
  if (!first) throw new Error('invalidAll: no location');
  const more = locations.length > 1 ? ` (and ${locations.length - 1} more, see errors)` : '';
  return invalidPackage(`${formatLocation(first)}${more}`, locations);
}
