import { startPodman } from '../support/engines.ts';
import { deploySuite } from './deploy-suite.ts';

deploySuite(startPodman);
