/** Creates the problems of invalid packages, with the locations of the faults. */
import { formatLocation, Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';
import { cutQuoted } from '../../service/text/quoted-text.ts';

/** Maximum number of locations in one response. */
const FAULTS_MAX = 50;

/** @param locations with line and column where they are known. Default: the fault is of the whole package */
export function invalidPackage(detail: string, locations: readonly ProblemLocation[] = [{ message: detail }]): Problem {
  return new Problem('invalid_package', detail, { errors: locations.slice(0, FAULTS_MAX).map(cutField) });
}

/** The names in a field are the author's: a schema may have one of 64 KiB. */
function cutField(location: ProblemLocation): ProblemLocation {
  return location.field === undefined ? location : { ...location, field: cutQuoted(location.field) };
}

/** Creates a problem with one location. The detail describes it. */
export function invalidAt(location: ProblemLocation): Problem {
  return invalidPackage(formatLocation(cutField(location)), [location]);
}

/** Creates a problem with several locations. The detail describes the first one and counts the others. */
export function invalidAll(locations: readonly ProblemLocation[]): Problem {
  const [first] = locations;
  if (!first) throw new Error('invalidAll: no location');
  const more = locations.length > 1 ? ` (and ${locations.length - 1} more, see errors)` : '';
  return invalidPackage(`${formatLocation(cutField(first))}${more}`, locations);
}
